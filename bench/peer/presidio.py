"""Finds items by Presidio's pattern recognizers, the optional ones too, without a language model: a list of spans for each line of
standard input. Identifiers of companies, places and vehicles are left out."""

import json
import logging
import sys

from presidio_analyzer import predefined_recognizers
from presidio_analyzer.predefined_recognizers import PhoneRecognizer

KINDS = {
    "CreditCardRecognizer": "card",
    "CryptoRecognizer": "crypto_wallet",
    "DateRecognizer": "date_of_birth",
    "EmailRecognizer": "email",
    "IbanRecognizer": "iban",
    "IpRecognizer": "ip",
    "MacAddressRecognizer": "mac",
    "PhoneRecognizer": "phone",
    "UrlRecognizer": "url_credentials",
    "UsSsnRecognizer": "ssn",
}
NO_PERSON = ("Vat", "Postal", "Plz", "Postcode", "Vehicle", "Plate", "Kfz", "Company", "Handelsregister", "Abn", "Acn", "Uen", "Bank", "Aba", "Gstin", "Brn", "Bsnr", "Organisationsnummer", "Uuid")


def recognizers():
    """Returns the recognizers, each with its kind. Those of countries find national ids."""
    for name in sorted(predefined_recognizers.__all__):
        one = getattr(predefined_recognizers, name)
        of_country = ".country_specific." in getattr(one, "__module__", "")
        if name in KINDS or (of_country and not any(word in name for word in NO_PERSON) and "Phone" not in name):
            yield KINDS.get(name, "national_id"), PhoneRecognizer() if name == "PhoneRecognizer" else one()


# Without a network, each run says that it has no newer list of domains.
logging.disable()
RECOGNIZERS = list(recognizers())
for line in sys.stdin:
    found = []
    text = json.loads(line)
    for kind, recognizer in RECOGNIZERS:
        for one in recognizer.analyze(text, recognizer.supported_entities, None) or []:
            if one.score >= float(sys.argv[1]):
                found.append([kind, one.start, one.end])
    print(json.dumps(found))
