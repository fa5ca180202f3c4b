"""Finds items by Presidio's pattern recognizers, without a language model: a list of spans for each line of standard input."""

import json
import sys

from presidio_analyzer.predefined_recognizers import (
    CreditCardRecognizer,
    CryptoRecognizer,
    DateRecognizer,
    EmailRecognizer,
    IbanRecognizer,
    IpRecognizer,
    MacAddressRecognizer,
    PhoneRecognizer,
    UrlRecognizer,
    UsSsnRecognizer,
)

RECOGNIZERS = {
    "email": EmailRecognizer(),
    "phone": PhoneRecognizer(),
    "card": CreditCardRecognizer(),
    "iban": IbanRecognizer(),
    "ssn": UsSsnRecognizer(),
    "ip": IpRecognizer(),
    "mac": MacAddressRecognizer(),
    "url_credentials": UrlRecognizer(),
    "crypto_wallet": CryptoRecognizer(),
    "date_of_birth": DateRecognizer(),
}

for line in sys.stdin:
    found = []
    text = json.loads(line)
    for kind, recognizer in RECOGNIZERS.items():
        for one in recognizer.analyze(text, recognizer.supported_entities, None) or []:
            # The analyzer leaves out what has no context and a lower score.
            if one.score >= float(sys.argv[1]):
                found.append([kind, one.start, one.end])
    print(json.dumps(found))
