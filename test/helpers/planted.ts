/** Personal data and secrets that are made up, each in a sentence of its own, and captures that have them planted. */

import { createHash } from 'node:crypto';
import type { RedactKind } from '../../src/core/settings/redact-setting.ts';

export interface Planted {
  kind: RedactKind;
  /** The item as it is written in the sentence. */
  item: string;
  sentence: string;
}

/** Numbers from 0 to 1 that are the same for the same seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const BASE58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const BECH32 = 'qpzry9x8gf2tvdw0s3jn54khce6mua7l';
const HEX = '0123456789abcdef';
const ALPHANUMERIC = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

function makers(random: () => number) {
  const below = (most: number): number => Math.floor(random() * most);
  const one = <T>(list: readonly T[]): T => list[below(list.length)] as T;
  const of = (alphabet: string, count: number): string =>
    Array.from({ length: count }, () => alphabet[below(alphabet.length)]).join('');
  const digits = (count: number): string => of('0123456789', count);
  const year = (): string => String(1930 + below(80));
  const two = (most: number): string => String(1 + below(most)).padStart(2, '0');

  const luhn = (body: string): string => {
    let sum = 0;
    for (const [at, digit] of [...body].reverse().entries()) {
      const doubled = at % 2 === 0 ? Number(digit) * 2 : Number(digit);
      sum += doubled > 9 ? doubled - 9 : doubled;
    }
    return body + ((10 - (sum % 10)) % 10);
  };
  const ean = (body: string): string => {
    const sum = [...body].reduce((total, digit, at) => total + Number(digit) * (at % 2 === 0 ? 1 : 3), 0);
    return `${body}${(10 - (sum % 10)) % 10}`;
  };
  const card = (): string => {
    const number = one([
      () => luhn(`4${digits(14)}`),
      () => luhn(`5${1 + below(5)}${digits(13)}`),
      () => luhn(`37${digits(12)}`),
      () => luhn(`6011${digits(11)}`),
    ])();
    return one([number, number.replace(/(\d{4})(?=\d)/g, '$1 '), number.replace(/(\d{4})(?=\d)/g, '$1-')]);
  };
  const iban = (): string => {
    const [country, length] = one([
      ['DE', 22],
      ['FR', 27],
      ['ES', 24],
      ['GB', 22],
      ['NL', 18],
      ['CH', 21],
    ] as const);
    const bank = ['GB', 'NL'].includes(country) ? of('ABCDEFGHIJKLMNOPQRSTUVWXYZ', 4) : '';
    const body = bank + digits(length - 4 - bank.length);
    const numeric = [...`${body}${country}00`].map((letter) => Number.parseInt(letter, 36)).join('');
    const text = `${country}${String(98n - (BigInt(numeric) % 97n)).padStart(2, '0')}${body}`;
    return one([text, text.replace(/(.{4})(?=.)/g, '$1 ')]);
  };
  const sha = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest();
  const base58 = (): string => {
    const body = Buffer.from([0, 1 + below(255), ...Array.from({ length: 19 }, () => below(256))]);
    let value = BigInt(`0x${Buffer.concat([body, sha(sha(body)).subarray(0, 4)]).toString('hex')}`);
    let text = '';
    for (; value > 0n; value /= 58n) text = BASE58[Number(value % 58n)] + text;
    return `1${text}`;
  };
  const bech32 = (): string => {
    const data = [0, ...Array.from({ length: 32 }, () => below(32))];
    let sum = 1;
    for (const value of [3, 3, 0, 2, 3, ...data, 0, 0, 0, 0, 0, 0]) {
      const top = sum >>> 25;
      sum = ((sum & 0x1ffffff) << 5) ^ value;
      const terms = [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3];
      for (const [bit, term] of terms.entries()) if ((top >>> bit) & 1) sum ^= term;
    }
    const check = Array.from({ length: 6 }, (_, at) => ((sum ^ 1) >>> (5 * (5 - at))) & 31);
    return `bc1${[...data, ...check].map((value) => BECH32[value]).join('')}`;
  };
  const base64url = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const secret = (): string => `${of(ALPHANUMERIC, 18)}7a`;

  const by: Record<RedactKind, () => [item: string, sentence: string]> = {
    email: () => {
      const item = `${one(['jane', 'j.doe', 'müller', 'info+news', 'a_b'])}${below(9999)}@${of('abcdefgh', 6)}.${one(['com', 'co.uk', 'de', 'example.org'])}`;
      const said = [`You can reach me at ${item}.`, `Meine Adresse ist ${item}, danke.`, `<${item}>`];
      return [item, one([...said, `mailto:${item}?subject=x`])];
    },
    phone: () => {
      const free = one([
        `+49 30 ${digits(7)}`,
        `+44 20 ${2 + below(7)}${digits(3)} ${digits(4)}`,
        `(${2 + below(7)}${digits(2)}) ${digits(3)}-${digits(4)}`,
      ]);
      const local = `0${one(['30', '171', '89'])} ${1 + below(9)}${digits(6)}`;
      return one<[string, string]>([
        [free, `The number is ${free}, any time.`],
        [local, `Telefon: ${local}`],
        [local, `mon portable ${local} merci`],
      ]);
    },
    card: () => {
      const item = card();
      return [item, one([`My card is ${item}.`, `Kartennummer ${item} bitte`, `tarjeta: ${item}`])];
    },
    iban: () => {
      const item = iban();
      return [item, one([`Please pay to ${item}.`, `IBAN ${item} BIC COBADEFF`, `compte ${item}, merci`])];
    },
    ssn: () => {
      const [a, b, c] = [String(100 + below(560)), two(99), String(1000 + below(9000))];
      return one<[string, string]>([
        [`${a}-${b}-${c}`, `My SSN is ${a}-${b}-${c}.`],
        [`${a}${b}${c}`, `Social security number: ${a}${b}${c}`],
      ]);
    },
    national_id: () => {
      const number = digits(8);
      const dni = `${number}${'TRWAGMYFPDXBNJZSQVHLCKE'[Number(number) % 23]}`;
      const nino = `AB ${number.slice(0, 6).replace(/..(?=.)/g, '$& ')} C`;
      const item = one([
        dni,
        nino,
        `756.${ean(`756${digits(9)}`)
          .slice(3)
          .replace(/^(....)(....)/, '$1.$2.')}`,
      ]);
      return [item, one([`My number is ${item}.`, `${item} es mi DNI`, `AHV-Nr. ${item}`])];
    },
    ip: () => {
      const item = one([
        `${130 + below(90)}.${below(256)}.${below(256)}.${below(256)}`,
        `2001:db8:${of(HEX, 4)}::${of(HEX, 3)}1`,
        `fe80::${of(HEX, 4)}:${of(HEX, 4)}:${of(HEX, 4)}:1${of(HEX, 3)}`,
      ]);
      return [item, one([`The host is ${item} today`, `from ${item}, port 22`, `Adresse ${item}`])];
    },
    mac: () => {
      const pairs = Array.from({ length: 6 }, () => of(HEX, 2));
      const item = one([
        pairs.join(':'),
        pairs.join('-').toUpperCase(),
        `${pairs.slice(0, 2).join('')}.${pairs.slice(2, 4).join('')}.${pairs.slice(4).join('')}`,
      ]);
      return [item, `The device ${item} is offline.`];
    },
    url_credentials: () => {
      const login = `${of('abcdef', 5)}:${secret()}`;
      const token = secret();
      return one<[string, string]>([
        [login, `postgres://${login}@db.internal:5432/x`],
        [token, `see https://example.com/a?id=1&token=${token} for it`],
      ]);
    },
    api_key: () => {
      const item = one([
        `AKIA${of('ABCDEFGHIJKLMNOPQRSTUVWXYZ234567', 16)}`,
        `ghp_${of(ALPHANUMERIC, 36)}`,
        `sk-proj-${secret()}`,
        `hf_${of(ALPHANUMERIC, 34)}`,
        `sk_live_${of(ALPHANUMERIC, 24)}`,
      ]);
      const other = secret();
      return one<[string, string]>([
        [item, `Use ${item} for it.`],
        [other, `api_key=${other}`],
        [other, `Authorization: Bearer ${other}`],
        [other, `{"user":"ann","password":"${other}"}`],
        [other, `Mein Passwort lautet ${other}`],
        [other, `DB_PASSWORD=${other}`],
      ]);
    },
    jwt: () => {
      const item = `${base64url({ alg: 'HS256', typ: 'JWT' })}.${base64url({ sub: digits(9), name: of('abc', 5) })}.${of(ALPHANUMERIC, 43)}`;
      return [item, `The session is ${item} now`];
    },
    crypto_wallet: () => {
      const item = one([base58, bech32, () => `0x${of(HEX, 40)}`])();
      return [item, one([`Send it to ${item}.`, `Wallet ${item}, danke`])];
    },
    date_of_birth: () => {
      const item = one([
        `${year()}-${two(12)}-${two(28)}`,
        `${two(28)}.${two(12)}.${year()}`,
        `${two(12)}/${two(28)}/${year()}`,
        `${1 + below(28)} March ${year()}`,
        `July ${1 + below(28)}, ${year()}`,
      ]);
      return [
        item,
        one([`I was born on ${item}.`, `Date of birth: ${item}`, `geboren am ${item}`, `fecha de nacimiento: ${item}`]),
      ];
    },
  };
  return { by, below, one };
}

/** Makes items of all kinds in turn. */
export function plantedItems(count: number, seed: number): Planted[] {
  const { by } = makers(seeded(seed));
  const kinds = Object.keys(by) as RedactKind[];
  return Array.from({ length: count }, (_, at) => {
    const kind = kinds[at % kinds.length] as RedactKind;
    const [item, sentence] = by[kind]();
    return { kind, item, sentence };
  });
}
