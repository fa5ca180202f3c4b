/** One table of words announces items in sentences and names of fields, in many languages. Beside data an item is one; code and versions are none. */

import { redactRules } from '../../../src/core/settings/redact-setting.ts';
import { Masker } from '../../../src/redact/mask.ts';

const masked = (value: unknown, kinds: string): unknown =>
  new Masker({ ...redactRules(kinds), allow: [], content: 'all' }).value(value, true);

/** Each item is between angle brackets. */
const PHONES = `
Meine Telefonnummer lautet <030 9018201>.
Rufen Sie mich an: <0171 2345678>
Handynr.: <0171 2345678>
Appelez-moi au <06 12 34 56 78>
Llámame al <612 34 56 78>
O meu telemóvel é <912 345 678>
Bel me op <06-12345678>
Mon numéro de téléphone est le <06 12 34 56 78>
Mi teléfono es <612 34 56 78>
Meu celular é <(11) 91234-5678>
Mijn telefoonnummer is <06-12345678>
Mój numer telefonu to <501 234 567>
Telefon numaram <0532 123 45 67>
제 전화번호는 <010-1234-5678> 입니다
मेरा फ़ोन नंबर <98765 43210> है
رقم الهاتف <0501234567>
, (marked) => {
  const { request } = decoded(json({ text: marked.replace(/[<>]/g, 
);
  const masked = marked.replace(/<.*>/, 
);
Ruf mich an: <0171 072 4506>
Meine Nummer ist <(030) 2442-7971>
Unter <0171 0724506> können Sie mich anrufen
Du erreichst mich unter <0171 072 4506>
My number is <020 5796 4066>
Text me on <07700 900 982>, or <020 7946 0958>
Reach me at <5551234567>
<020 5796 4066> is my number
Phone (home): <030 9018201>
**Phone:** <030 9018201>
| Tel. | <030 9018201> |
<tel><030 9018201></tel>
customer_phone = "<030 9018201>"
Mitt mobilnummer är <070-610 43 17>
Ring meg på <22 12 34 56>
Du kan ringe mig på tlf. <22 12 34 56>
Puhelinnumeroni on <040 123 4567>
Soita minulle numeroon <0401234567>
Minu telefon on <5123 4567>
Mans numurs ir <0221 234 567>
Mano telefono numeris yra <0612 34567>
Zadzwoń do mnie pod <501 234 567>
Mój numer to <501 234 567>
Zavolejte mi na <601 123 456>
Moje číslo je <0905 123 456>
Hívjon a <06 30 123 4567> számon
A telefonszámom <06 30 123 4567>
Sunați-mă la <0721 234 567>
Numărul meu este <0721 234 567>
Моят телефон е <0888 123 456>
Позвоните мне по номеру <8 912 345-67-89>
Мой номер: <89123456789>
Мій номер телефону <050 123 45 67>
Τηλεφωνήστε μου στο <210 123 4567>
Το κινητό μου είναι <6912345678>
Beni <0532 123 45 67> numarasından arayın
Cep: <0532 123 45 67>
هاتفي <050 152 8039>
اتصل بي على <050 152 8039>
شماره من <0912 345 6789>
הטלפון שלי הוא <052-181-2318>
התקשרו אליי ל-<052-181-2318>
मेरा नंबर <98765 43210> है
আমার ফোন নম্বর <01712-345678>
என் தொலைபேசி எண் <98400 12345>
เบอร์โทรศัพท์ของฉันคือ <081-234-5678>
โทร <0812345678>
Số điện thoại của tôi là <090 123 4567>
Hubungi saya di <0812-3456-7890>
No. HP <0812 3456 7890>
Telefon bimbit saya ialah <012-345 6789>
Namba ya simu yangu ni <0712 345 678>
我的号码是<13812345678>
联系电话：<010-12345678>
私の電話番号は<03-1234-5678>です
<090-1234-5678>に電話してください
제 번호는 <010-1234-5678>입니다
Mein Handy: <0171 2345678> oder <030 9018201>
El meu número és el <612 34 56 78>
Moj broj je <091 234 5678>
Мој број је <064 123 4567>
Moja telefonska številka je <041 234 567>
Sel: <082 123 4567>
Símanúmerið mitt er <555 1234>`;

const BIRTHS = `
Geburtstag: <12.03.1985>
Nasci em <12 de março de 1985>
Urodziłem się <3 maja 1985>
Ich bin am <12.03.1985> geboren
Nací el <12 de marzo de 1985>
<1985年3月12日>生まれ
我出生于<1994年2月20日>
저는 <1972년 10월 11일>에 태어났습니다
私は<1985年3月12日>に生まれました
昭和<60年3月12日>生まれ
Ich bin am <12. März 1985> geboren
Geb. am <12.03.85>
Urodzona <3 maja 1985> r.
Narozena <3. května 1985>
Narodený <3. mája 1985>
Születtem: <1985. március 12>
<1985.03.12>-én születtem
Syntynyt <12. maaliskuuta 1985>
Sündinud <12. märtsil 1985>
Dzimis <1985. gada 12. martā>
Gimiau <1985 m. kovo 12> d.
Née le <12 mars 1985>
Nacida el <12 de marzo de 1985>
Nato il <12 marzo 1985>
Nasci a <12 de março de 1985>
M-am născut pe <12 martie 1985>
Роден на <12 март 1985>
Я родилась <12 марта 1985> года
<12.03.1985> г.р.
Народився <12 березня 1985>
Γεννήθηκα στις <12 Μαρτίου 1985>
<12 Mart 1985> tarihinde doğdum
Doğum tarihim <12.03.1985>
وُلدت في <12 مارس 1985>
متولد <12/3/1360>
נולדתי ב-<12 במרץ 1985>
मेरा जन्म <12 मार्च 1985> को हुआ
আমার জন্ম তারিখ <12/03/1985>
ฉันเกิดวันที่ <12 มีนาคม 2528>
Tôi sinh ngày <12 tháng 3 năm 1985>
Saya lahir pada tanggal <12 Maret 1985>
Ipinanganak ako noong <12 Marso 1985>
I was born on the <12th of March, 1985>
D.O.B.: <12/03/1985>
dob=<19850312>`;

const FIELDS = {
  phone: `тел,τηλέφωνο,هاتف,טלפון,फ़ोन,số điện thoại,tlf,whatsapp,telefón,puhelin,nomor_telepon,msisdn,contactNumber,phoneNumber,userCell,
    telefon_privat,Rückrufnummer,rueckruf,telemóvel,mobielNummer,celular,номер_телефона,電話番号,手机,전화번호,customerPhone,HomePhoneNo,TELEFONNUMMER,
    customer.contact.phone,phone2,telefonszam,telefonnyTel,no_hp,cep_telefonu,mobil_cislo,รหัสโทรศัพท์`,
  date_of_birth: `födelsedatum,syntymäaika,datum_narozeni,szuletesi_datum,ημερομηνία_γέννησης,تاريخ_الميلاد,תאריך_לידה,जन्मतिथि,ngày_sinh,
    tanggal_lahir,bday,dob,birthDate,customerDOB,geburtstag,dateNaissance,data_nascimento,doğumTarihi,誕生日,生年月日,생년월일,дата_рождения,fechaNac,
    dateofbirth,data_urodzenia,geboortedatum,rojstni_dan,datum_rođenja,sünniaeg,dzimšanas_datums,gimimo_data`,
};

const marked = (text: string, kind: string): string => text.replaceAll(/<(?=[\d(])[^>]*>/g, `<${kind}>`);
const bare = (text: string): string => text.replaceAll(/<(?=[\d(])([^>]*)>/g, '$1');
const linesOf = (text: string): string[] => text.trim().split('\n');

test.each([
  ...linesOf(PHONES).map((text) => ['phone', text] as const),
  ...linesOf(BIRTHS).map((text) => ['date_of_birth', text] as const),
])('%s: %s', (kind, text) => {
  expect(masked(bare(text), kind)).toBe(marked(text, kind));
});

test.each([
  ['phone', '030 9018201'],
  ['date_of_birth', '1985-03-12'],
] as const)('names of fields announce a %s', (kind, value) => {
  const names = FIELDS[kind].split(/,\s*/);
  const fields = Object.fromEntries(names.map((name) => [name, value]));
  expect(masked(structuredClone(fields), kind)).toEqual(Object.fromEntries(names.map((name) => [name, `<${kind}>`])));
});

test('a number of a field is masked, and so is each of a list', () => {
  const value = { mobil: 1712345678, phones: ['030 9018201', '040 123456'], contact: 'Ann, 030 9018201' };
  expect(masked(value, 'phone')).toEqual({ mobil: '<phone>', phones: ['<phone>', '<phone>'], contact: 'Ann, <phone>' });
});

/** Beside separators of data, and in other spellings. */
const AMONG_DATA = String.raw`
card: name,card,cvv\nAnn,‹4111111111111111›,123
card: INSERT INTO c VALUES (17,‹5555555555554444›,'Ann')
card: cards=[‹4111111111111111›,‹5555555555554444›]
card: 1,‹4111 1111 1111 1111›,123
card: pay ‹4111111111111111›,09/29
card: 17;‹4111111111111111›;123
card: 17\t‹4111111111111111›\t123
card: 17|‹4111111111111111›|123
card: 17 ‹4111111111111111› 123
card: x=‹4111111111111111›&y=1
card: ‹4111  1111  1111  1111› 12/27
card: ‹4111 1111\n1111 1111›
card: ‹4111.1111.1111.1111›
card: ‹3782 822463 10005›
card: ‹41\u200b11 1111 1111 1111›
iban: 17,‹DE89370400440532013000›,5
iban: ‹FR76 30006 00001 12345678901 89›
iban: ‹DE89  3704  0044  0532  0130  00›
ssn: 17 ‹536-22-1234› 5
ssn: Social Security No. ‹536221234›
phone: 17 ‹(212) 555-0123› 5
phone: 17,‹212-555-0123›,5
phone: 17 ‹+49 30 901820›
phone: Tel. ‹(212) 555-0123 x4567›
ip: ‹10.1.2.30›,‹192.168.17.4›,8
ip: localhost/‹10.2.3.40›:80
ip: ip=‹1.2.3.4›
ip: ‹2001:db8::1›: timeout
mac: mac:‹00:1B:44:11:3A:B7›
mac: MAC ‹3CDEA51DEF59›
email: 17,‹jane@xn--e1afmkfd.xn--p1ai›,5
email: ‹ja\u00adne@ex\u200bample.com›
email: ‹jane&#64;example.com›
email: ‹jane [at] example [dot] com›
crypto_wallet: 17,‹LaMT348PWRnrqeeWArpwQPbuanpXDZGEUz›,5`;

test.each(linesOf(AMONG_DATA))('%s', (line) => {
  const [kind, written] = (JSON.parse(`"${line}"`) as string).split(/: (.*)/s) as [string, string];
  expect(masked(written.replace(/[‹›]/g, ''), kind)).toBe(written.replace(/‹[^›]*›/g, `<${kind}>`));
});

const HARMLESS = `
cell 12345678
call 20240101
call 1700000000
ring 12345678
contact 12345678
order number 12345678
my order number is 12345678
phone model 12345678
smartphone 12345678, iPhone 12345678, Immobilien 12345678, mobility 12345678
Invoice DT-2661-298669
EAN 4276685308878
0.4111111111111111 and 1.4111111111111111
rows = s[::2] + a[1::2] + x[:, ::2] + y[10::3, 2::4]
std::a1::b2, 10:20:30:40
Chrome/131.0.0.0 Safari/537.36, Edg/120.0.0.0, rv:1.9.2.20
torch 2.4.1.0, numpy==1.26.4.0, foo-1.2.3.4.tar.gz, glibc 2.31.0.0
OID 1.3.6.1, oid: 2.5.29.15, AUTOSAR 4.2.2.1, § 1.2.3.4
"version": "1.2.3.4", version="2.0.0.1"
127.0.0.1:8080, http://127.0.0.1, ::1, [::1]:80, 0.0.0.0, ::
255.255.255.0, 10.0.0.0/8, 192.168.0.0/16
commit 3cdea51def59
nato 2020-01-01, born 3 years before 1985, updated 12.03.1985
in 2020 the phone was 12 years old`;

test.each(linesOf(HARMLESS))('%s stays', (text) => {
  expect(masked(text, 'email,phone,card,iban,ssn,ip,mac,crypto_wallet,date_of_birth')).toBe(text);
});
