"""Prints personal data in sentences of other people, and harmless sentences, as JSON lines: kind, item, sentence and form.

The items are Faker's of 30 locales, the examples of all regions of phonenumbers, and the doctests of python-stdnum; the names of
identifiers are those that python-stdnum gives. Forms: `alone` has no word, field or country code; `word`, `field` and `code` do; `form`
is alone, and is written as no other number is.
"""

import importlib
import json
import random
import re
import sys

import phonenumbers
from faker import Faker
from phonenumbers import PhoneNumberFormat, PhoneNumberType

LOCALES = (
    "ar_AE ar_EG bg_BG cs_CZ da_DK de_AT de_DE el_GR en_AU en_GB en_IN en_US es_ES es_MX et_EE fi_FI fr_FR he_IL hi_IN "
    "hu_HU id_ID it_IT ja_JP ko_KR nl_NL no_NO pl_PL pt_BR ro_RO ru_RU sv_SE th_TH tr_TR uk_UA vi_VN zh_CN"
).split()

# How people announce a telephone number and a date of birth.
PHONE = {
    "ar": ["رقم هاتفي {}", "اتصل بي على {}"],
    "bg": ["Телефонът ми е {}", "тел. {}"],
    "cs": ["Můj telefon je {}", "Volejte {}, prosím", "mobil: {}"],
    "da": ["Mit telefonnummer er {}", "Ring til mig på {}", "tlf. {}"],
    "de": ["Meine Telefonnummer lautet {}", "Rufen Sie mich bitte unter {} an", "Handy {}", "Meine Nummer ist {}"],
    "el": ["Το τηλέφωνό μου είναι {}", "κινητό: {}", "Τηλ. {}"],
    "en": ["My phone number is {}", "Call me at {}", "cell: {}", "You can text me on {}", "Tel {}"],
    "es": ["Mi teléfono es el {}", "Llámame al {}", "móvil: {}"],
    "et": ["Minu telefon on {}", "Helista {}", "tel {}"],
    "fi": ["Puhelinnumeroni on {}", "Soita numeroon {}", "puh. {}"],
    "fr": ["Mon numéro de téléphone est le {}", "Appelez-moi au {}", "Tél. : {}"],
    "he": ["מספר הטלפון שלי הוא {}", "נייד: {}"],
    "hi": ["मेरा फ़ोन नंबर {} है", "मोबाइल: {}"],
    "hu": ["A telefonszámom {}", "Hívjon a {} számon", "mobil: {}"],
    "id": ["Nomor telepon saya {}", "Hubungi saya di {}", "No. HP {}"],
    "it": ["Il mio numero di telefono è {}", "Chiamami al {}", "cell. {}"],
    "ja": ["電話番号は{}です", "携帯: {}"],
    "ko": ["제 전화번호는 {}입니다", "휴대폰 {}"],
    "nl": ["Mijn telefoonnummer is {}", "Bel me op {}", "mobiel: {}"],
    "no": ["Telefonnummeret mitt er {}", "Ring meg på {}", "mobil {}"],
    "pl": ["Mój numer telefonu to {}", "Proszę dzwonić: {}", "kom. {}"],
    "pt": ["Meu telefone é {}", "Me ligue no {}", "celular: {}"],
    "ro": ["Numărul meu de telefon este {}", "Sunați-mă la {}", "mobil: {}"],
    "ru": ["Мой телефон {}", "Позвоните мне по номеру {}", "моб. {}"],
    "sv": ["Mitt telefonnummer är {}", "Ring mig på {}", "mobil: {}"],
    "th": ["เบอร์โทรศัพท์ของฉันคือ {}", "โทร {}"],
    "tr": ["Telefon numaram {}", "Beni {} numarasından arayın", "cep: {}"],
    "uk": ["Мій телефон {}", "Зателефонуйте мені за номером {}", "моб. {}"],
    "vi": ["Số điện thoại của tôi là {}", "Gọi cho tôi theo số {}", "ĐT: {}"],
    "zh": ["我的电话是{}", "手机号：{}"],
}
BIRTH = {
    "ar": ["تاريخ ميلادي {}", "ولدت في {}"],
    "bg": ["Роден съм на {}", "Дата на раждане: {}"],
    "cs": ["Narodil jsem se {}", "Datum narození: {}"],
    "da": ["Jeg er født den {}", "Fødselsdato: {}"],
    "de": ["Ich wurde am {} geboren", "Geburtsdatum: {}"],
    "el": ["Γεννήθηκα στις {}", "Ημερομηνία γέννησης: {}"],
    "en": ["I was born on {}", "DOB {}", "My birthday is {}"],
    "es": ["Nací el {}", "Fecha de nacimiento: {}"],
    "et": ["Olen sündinud {}", "Sünniaeg: {}"],
    "fi": ["Olen syntynyt {}", "Syntymäaika: {}"],
    "fr": ["Je suis née le {}", "Date de naissance : {}"],
    "he": ["נולדתי ב-{}", "תאריך לידה: {}"],
    "hi": ["मेरा जन्म {} को हुआ", "जन्म तिथि: {}"],
    "hu": ["Születtem: {}", "Születési dátum: {}"],
    "id": ["Saya lahir pada {}", "Tanggal lahir: {}"],
    "it": ["Sono nato il {}", "Data di nascita: {}"],
    "ja": ["生年月日は{}です", "{}生まれ"],
    "ko": ["생년월일: {}", "저는 {}에 태어났습니다"],
    "nl": ["Ik ben geboren op {}", "Geboortedatum: {}"],
    "no": ["Jeg er født {}", "Fødselsdato: {}"],
    "pl": ["Urodziłem się {}", "Data urodzenia: {}"],
    "pt": ["Nasci em {}", "Data de nascimento: {}"],
    "ro": ["M-am născut pe {}", "Data nașterii: {}"],
    "ru": ["Я родился {}", "Дата рождения: {}"],
    "sv": ["Jag är född den {}", "Födelsedatum: {}"],
    "th": ["ฉันเกิดวันที่ {}", "วันเกิด: {}"],
    "tr": ["Doğum tarihim {}", "{} tarihinde doğdum"],
    "uk": ["Я народилася {}", "Дата народження: {}"],
    "vi": ["Tôi sinh ngày {}", "Ngày sinh: {}"],
    "zh": ["我出生于{}", "出生日期：{}"],
}
DATES = {"ja": "%Y年%-m月%-d日", "zh": "%Y年%-m月%-d日", "ko": "%Y년 %-m월 %-d일", "hu": "%Y.%m.%d", "en": "%m/%d/%Y"}
PHONE_FIELDS = ["phone", "phone_number", "contactNumber", "tel", "mobile", "customer_phone", "homePhone", "whatsapp"]
BIRTH_FIELDS = ["birthdate", "date_of_birth", "dob", "birthDate", "birthday", "customer_dob"]

# Identifiers of persons. The second list is written as no other number is, but for the separators that a person may leave out.
WORDED = (
    "ar.dni at.vnr au.tfn be.nn bg.egn br.cpf ca.sin cl.rut cn.ric co.nit cz.rc de.idnr dk.cpr do.cedula ec.ci ee.ik gb.nhs "
    "gr.amka hr.oib hu.anum id.nik il.idnr in_.aadhaar is_.kennitala jp.in_ kr.rrn lt.asmens my.nric nl.bsn no.fodselsnummer pe.cui "
    "pk.cnic pl.pesel pt.nif ro.cnp ru.inn se.personnummer si.emso sk.rc th.pin tr.tckimlik ua.rntrc us.itin us.ein us.atin za.idnr"
).split()
# Whose numbers Faker makes.
FAKED = {
    "bg_BG": "bg.egn", "cs_CZ": "cz.rc", "da_DK": "dk.cpr", "de_AT": "at.vnr", "es_ES": "es.nif", "et_EE": "ee.ik",
    "fi_FI": "fi.hetu", "fr_FR": "fr.nir", "he_IL": "il.idnr", "it_IT": "it.codicefiscale", "ko_KR": "kr.rrn",
    "nl_NL": "nl.bsn", "no_NO": "no.fodselsnummer", "pl_PL": "pl.pesel", "pt_BR": "br.cpf", "ro_RO": "ro.cnp",
    "ru_RU": "ru.inn", "sv_SE": "se.personnummer", "tr_TR": "tr.tckimlik", "zh_CN": "cn.ric", "es_MX": "mx.curp",
}
FORMED = "ch.ssn es.dni es.nie es.nif fi.hetu fr.nir ie.pps in_.pan it.codicefiscale mx.curp mx.rfc pt.cc".split()


def sentence(fake, text):
    """Puts a text between two sentences."""
    return f"{fake.sentence()} {text}. {fake.sentence()}"


def jsons(fake, field, item):
    """Puts an item into a record of a person."""
    return json.dumps({"name": fake.name(), field: item, "city": fake.city()}, ensure_ascii=False)


def plain(fake):
    """Items that have a form of their own."""
    yield "email", fake.email(), "form"
    yield "email", fake.company_email(), "form"
    yield "email", fake.free_email(), "form"
    number = fake.credit_card_number()
    yield "card", number, "form"
    yield "card", re.sub(r"(\d{4})(?=\d)", r"\1 ", number), "form"
    iban = fake.iban()
    yield "iban", iban, "form"
    yield "iban", re.sub(r"(.{4})(?=.)", r"\1 ", iban), "form"
    yield "ip", fake.ipv4_public(), "form"
    yield "ip", fake.ipv6(), "form"
    yield "mac", fake.mac_address(), "form"
    yield "mac", fake.mac_address().upper().replace(":", "-"), "form"


def logins(fake):
    """User and password of a URL, and a parameter that grants access."""
    word = re.sub(r"[\s/?#@\"'<>]", "x", fake.password(length=14))
    login = f"{fake.user_name()}:{word}"
    yield "url_credentials", login, sentence(fake, f"postgres://{login}@{fake.domain_name()}/db"), "form"
    token = fake.sha1()
    yield "url_credentials", token, sentence(fake, f"{fake.uri()}?token={token}"), "form"


def persons(locale, fake):
    """Telephone numbers and dates of birth as people of a locale write them."""
    language = locale[:2]
    for template in PHONE[language]:
        item = fake.phone_number()
        yield "phone", item, sentence(fake, template.format(item)), "word"
    item = fake.phone_number()
    yield "phone", item, jsons(fake, random.choice(PHONE_FIELDS), item), "field"
    yield "phone", item, sentence(fake, item), "alone"
    for template in BIRTH[language]:
        born = fake.date_of_birth(minimum_age=18).strftime(DATES.get(language, "%d.%m.%Y"))
        yield "date_of_birth", born, sentence(fake, template.format(born)), "word"
    born = fake.date_of_birth().isoformat()
    yield "date_of_birth", born, jsons(fake, random.choice(BIRTH_FIELDS), born), "field"


def numbers(fake):
    """The example of each region and type, in the forms of phonenumbers."""
    types = [PhoneNumberType.FIXED_LINE, PhoneNumberType.MOBILE]
    for region in sorted(phonenumbers.SUPPORTED_REGIONS):
        for kind in types:
            number = phonenumbers.example_number_for_type(region, kind)
            if number is None:
                continue
            for form in (PhoneNumberFormat.E164, PhoneNumberFormat.INTERNATIONAL):
                item = phonenumbers.format_number(number, form)
                yield "phone", item, sentence(fake, item), "code"
            item = phonenumbers.format_number(number, PhoneNumberFormat.NATIONAL)
            if len(re.sub(r"\D", "", item)) < 7:
                continue
            yield "phone", item, sentence(fake, random.choice(PHONE["en"]).format(item)), "word"
            yield "phone", item, jsons(fake, random.choice(PHONE_FIELDS), item), "field"
            yield "phone", item, sentence(fake, item), "alone"


def identifiers(fake):
    """The valid numbers of python-stdnum's doctests, and Faker's."""
    for name in [*WORDED, *FORMED]:
        module = importlib.import_module(f"stdnum.{name}")
        text = module.__doc__ or ""
        quoted = re.findall(r">>> (?:validate|compact|format)\('([^']+)'\)", text)
        faked = [Faker(locale).ssn() for locale, made in FAKED.items() if made == name for _ in range(20)]
        valid = [item.strip() for item in dict.fromkeys([*quoted, *faked]) if module.is_valid(item)]
        title = re.split(r"[(,]", text.splitlines()[0])[0].strip(" .") or name.split(".")[1]
        field = re.sub(r"\W", "_", title.lower())
        for item in valid:
            for one in dict.fromkeys([item, module.compact(item)]):
                yield "national_id", one, sentence(fake, f"{title}: {one}"), "word"
                yield "national_id", one, sentence(fake, f"My {title} is {one}"), "word"
                yield "national_id", one, jsons(fake, field, one), "field"
                yield "national_id", one, sentence(fake, one), "form" if name in FORMED else "alone"
    for item in ["078-05-1120", *(fake.ssn() for _ in range(40))]:
        yield "ssn", item, sentence(fake, item), "form"
        yield "ssn", item, jsons(fake, "ssn", item), "field"
    for item in ["1NEDqZPvTWRaoho48qXuLLsrYomMXPABfD", "BC1QARDV855YJNGSPVXUTTQ897AQCA3LXJU2Y69JCE"]:
        yield "crypto_wallet", item, sentence(fake, item), "form"


def harmless(fake):
    """Texts without personal data."""
    yield fake.sentence()
    yield fake.paragraph()
    yield f"Order {fake.numerify('########')} of {fake.date()}: {fake.numerify('##.%#')} EUR"
    yield f"{fake.sentence()} {fake.user_agent()}"
    yield f"ISBN {fake.isbn13()}, EAN {fake.ean13()}, page {fake.random_int(1, 900)}"
    yield f"{fake.iso8601()} INFO took {fake.random_int(1, 90000)} ms, id {fake.uuid4()}"
    yield f"torch {fake.numerify('%.#.#.#')}, OID 1.3.6.{fake.numerify('%.%.%##')}, Chrome/{fake.numerify('1##.0.%###.1##')}"
    yield f"{fake.file_path(depth=3)} {fake.md5()} {fake.sha1()}"
    yield f"epoch {fake.unix_time():.0f}, {fake.latitude()}, {fake.longitude()}, {fake.numerify('%##,###,###')} people"
    yield "rows = s[::2] + x[:, ::3]; std::vector<a::b> at 127.0.0.1 or ::1"
    yield f"The password must have {fake.random_int(8, 20)} characters; max_tokens: {fake.random_int(64, 4096)}"
    yield f"Invoice {fake.bothify('??-####-######')} is due on {fake.date()}, {fake.pricetag()}"
    yield json.dumps({"id": fake.random_number(9), "token": fake.word(), "scores": [0.1, 0.9], "color": fake.hex_color()})
    yield f"{fake.currency_code()} {fake.numerify('###.###,##')} at {fake.time()} in room {fake.numerify('###')}"


def main(rounds):
    """Prints all, with the same random numbers each time."""
    random.seed(7)
    Faker.seed(7)
    rows = []
    for locale in LOCALES:
        fake = Faker([locale])
        for _ in range(rounds):
            rows += [(kind, item, sentence(fake, item), form) for kind, item, form in plain(fake)]
            rows += logins(fake)
            rows += persons(locale, fake)
            rows += [("", "", text, "harmless") for text in harmless(fake)]
    english = Faker("en_US")
    rows += numbers(english)
    rows += identifiers(english)
    for kind, item, text, form in rows:
        print(json.dumps({"kind": kind, "item": item, "sentence": text, "form": form}))


main(int(sys.argv[1]))
