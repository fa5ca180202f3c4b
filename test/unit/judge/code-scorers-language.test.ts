/** The code scorer that compares the languages of request and reply. */
import { readFileSync } from 'node:fs';
import { packagePath } from '../../../src/core/process/package-folder.ts';
import { detectLanguage } from '../../../src/judge/scorers/code/language.ts';
import { codeScorers } from '../../../src/judge/scorers/code-scorers.ts';
import { chatCapture, errorCapture } from '../../helpers/captures.ts';

const scorer = (name: string) => codeScorers.find((candidate) => candidate.name === name) as (typeof codeScorers)[0];

/** Sentences as people write them to assistants. */
const SENTENCES: readonly [string, string][] = [
  ['en', 'Our heating stopped working last night and the children are cold, what can we do until the plumber arrives?'],
  ['en', 'Make the second paragraph shorter and keep the numbers as they are.'],
  [
    'de',
    'Unsere Heizung ist gestern Abend ausgefallen und den Kindern ist kalt, was können wir bis zum Eintreffen des Installateurs tun?',
  ],
  ['de', 'Fasse den zweiten Absatz kürzer und lass die Zahlen so, wie sie sind.'],
  [
    'fr',
    'Notre chauffage est tombé en panne hier soir et les enfants ont froid, que pouvons-nous faire en attendant le plombier ?',
  ],
  [
    'es',
    'La calefacción dejó de funcionar anoche y los niños tienen frío, ¿qué podemos hacer hasta que llegue el fontanero?',
  ],
  [
    'it',
    'Il riscaldamento ha smesso di funzionare ieri sera e i bambini hanno freddo: che cosa possiamo fare fino all’arrivo dell’idraulico?',
  ],
  [
    'pt',
    'O aquecimento deixou de funcionar ontem à noite e as crianças estão com frio. O que podemos fazer até o canalizador chegar?',
  ],
  ['sv', 'Vår värme slutade fungera i går kväll och barnen fryser, vad kan vi göra tills rörmokaren kommer?'],
  [
    'fi',
    'Lämmityksemme lakkasi toimimasta eilen illalla ja lapsilla on kylmä. Mitä voimme tehdä ennen kuin putkimies tulee?',
  ],
  [
    'pl',
    'Wczoraj wieczorem przestało działać ogrzewanie i dzieciom jest zimno. Co możemy zrobić, zanim przyjdzie hydraulik?',
  ],
  ['hu', 'Tegnap este leállt a fűtésünk, és a gyerekek fáznak. Mit tehetünk, amíg megérkezik a szerelő?'],
  ['tr', 'Dün gece ısıtmamız bozuldu ve çocuklar üşüyor, tesisatçı gelene kadar ne yapabiliriz?'],
  [
    'vi',
    'Hệ thống sưởi của chúng tôi bị hỏng tối qua và bọn trẻ đang lạnh, chúng tôi có thể làm gì trước khi thợ đến?',
  ],
  ['uk', 'Учора ввечері в нас вимкнулося опалення, і діти мерзнуть. Що нам робити, доки не прийде сантехнік?'],
  ['ar', 'توقفت التدفئة عن العمل مساء أمس والأطفال يشعرون بالبرد، ماذا يمكننا أن نفعل حتى يصل السباك؟'],
  ['fa', 'گرمایش خانه ما دیشب از کار افتاد و بچه‌ها سردشان است، تا آمدن لوله‌کش چه کار کنیم؟'],
  ['hi', 'कल रात हमारा हीटर बंद हो गया और बच्चों को ठंड लग रही है, मिस्त्री के आने तक हम क्या करें?'],
  ['zh', '昨晚我们的暖气坏了，孩子们很冷，在水管工来之前我们能做什么？'],
  ['ja', '昨夜、暖房が止まってしまい子どもたちが寒がっています。修理の人が来るまで何ができますか。'],
  ['ko', '어젯밤에 난방이 멈춰서 아이들이 추워하는데, 수리 기사가 올 때까지 무엇을 할 수 있을까요?'],
  ['el', 'Η θέρμανση σταμάτησε χθες το βράδυ και τα παιδιά κρυώνουν, τι μπορούμε να κάνουμε;'],
  ['he', 'החימום שלנו הפסיק לעבוד אתמול בלילה והילדים קרים, מה אפשר לעשות?'],
  ['th', 'เครื่องทำความร้อนของเราเสียเมื่อคืนนี้และเด็กๆ หนาว เราควรทำอย่างไรดี'],
];

test.each(SENTENCES)('detects %s: %s', (language, sentence) => {
  expect(detectLanguage(sentence)).toEqual({ language });
});

test.each([
  ...['', 'ok', 'Merci !', 'iPhone 15 Pro', '42', '👍👍👍', 'https://example.com/de/hilfe/konto'],
  'Wie hoch ist der Großglockner?',
  // Close languages: Danish and Norwegian, Dutch and Afrikaans, Indonesian and Malay.
  'Kan jeg få regningen på e-post i stedet for på papir?',
  'Onze verwarming deed het gisteravond niet meer en de kinderen hebben het koud, wat kunnen we doen tot de loodgieter komt?',
  'Pemanas kami berhenti bekerja tadi malam dan anak-anak kedinginan, apa yang bisa kami lakukan sampai tukang datang?',
])('detects no language in %p', (text) => expect(detectLanguage(text)).toHaveProperty('notJudgeable'));

test('detects no wrong language in the anchor set', () => {
  const anchors = readFileSync(packagePath('src', 'quality', 'calibration', 'anchors.jsonl'), 'utf8')
    .trim()
    .split('\n');
  const told = anchors.flatMap((anchor) => {
    const { request, reply } = JSON.parse(anchor) as { request: unknown; reply: unknown };
    const texts = [request, reply].filter((text) => typeof text === 'string');
    return texts.map((text) => ({ text, ...detectLanguage(text) })).filter((found) => 'language' in found);
  });
  expect(told.length).toBeGreaterThan(50);
  const others = told.filter((found) => 'language' in found && found.language !== 'en');
  expect(others).toMatchObject([
    { language: 'es', text: expect.stringMatching(/^Entre en su cuenta/) },
    { language: 'es', text: expect.stringMatching(/^Entrar en su cuenta/) },
    { language: 'fr', text: expect.stringMatching(/^Vous pouvez/) },
  ]);
});

test('ignores code, addresses and markup', () => {
  const english = 'Here is the function that you asked for, with a comment on each of the steps:';
  const code = '```js\nconst größe = ich.bin.nicht.der.mit.dem.und();\n```\n';
  expect(detectLanguage(`${english}\n${code.repeat(20)}`)).toEqual({ language: 'en' });
  expect(detectLanguage(code.repeat(20))).toEqual({ notJudgeable: 'textTooShort' });
  const path = 'wo-finde-ich-die-antwort-auf-meine-frage';
  const addresses = ['http://a.de/', 'https://a.de/', 'HTTPS://A.DE/', 'www.a.de/'].map((start) => `${start}${path}`);
  for (const address of addresses)
    expect(detectLanguage(`${address} `.repeat(9))).toEqual({ notJudgeable: 'textTooShort' });
});

test('does not judge a mix of two languages', () => {
  const mixed =
    'The meeting is on Monday and we will send you the agenda before then, please confirm that you can be there. ' +
    'Das Treffen ist am Montag und wir schicken Ihnen vorher die Tagesordnung, bitte sagen Sie uns, ob Sie kommen können.';
  const result = detectLanguage(mixed);
  if ('language' in result) expect(['en', 'de']).toContain(result.language);
  expect(result).not.toEqual({ language: 'nl' });
});

test('distinguishes request and reply, and ignores the language of the system prompt', () => {
  const capture = chatCapture(
    [
      { role: 'system', content: 'You are a helpful assistant. Always answer in the language of the user, please.' },
      {
        role: 'user',
        content:
          'Wie lange dauert der Versand in die Schweiz, und was kostet er, wenn ich mehrere Pakete auf einmal schicke?',
      },
    ],
    'Shipping to Switzerland takes three to five days and is free of charge for orders over 50 francs. With more than one parcel the others are sent at half the price.',
  );
  expect(scorer('request_language').score(capture)).toEqual({ value: 'de' });
  expect(scorer('reply_language').score(capture)).toEqual({ value: 'en' });
});

test('judges the request of an error reply, but not the error', () => {
  const capture = errorCapture('upstream connect error or disconnect before headers');
  expect(scorer('reply_language').score(capture)).toEqual({ notJudgeable: 'errorReply' });
  expect(scorer('request_language').score(capture)).toEqual({ notJudgeable: 'textTooShort' });
});
