/** The simulated endpoints of `bench -- status`, and what `status` may and must say of them. */
import { DAY_MS } from '../../src/captures/files/capture-path.ts';
import { CHANGE_MS, type Endpoint } from './weeks.ts';

const HOUR_MS = 3_600_000;

export interface Cell {
  endpoint: Endpoint;
  /** Hours after the change, or after six weeks of a healthy endpoint, at which it is looked at. */
  hours: readonly number[];
  /** The scorer or rule that must be named, in this share of the looks at least. Absent: nothing is wrong. */
  named?: { subject?: string; rule?: string; atLeast: number };
  /** It is often simulated. */
  isOften?: true;
  /** Looks that must be healthy, at least. */
  healthy?: number;
  /** By how much the subject is worse, of the whole of each span since the change: no sentence may exclude it. */
  points?: number;
}

const DAILY = Array.from({ length: 7 }, (_day, n) => 24 * (n + 1) + 12);
const since = (ms: number, share: number, scorer: string) => (name: string, at: { ms: number }) =>
  name === scorer && at.ms >= ms ? share : undefined;
const falls = since(CHANGE_MS, 0.15, 'relevance_to_query');
const CHAT = { turns: 8, alike: 0.5 };
/** Nights and weekends have fewer good replies, which the default bound allows. */
const offHours = (scorer: string, { ms }: { ms: number }): number | undefined => {
  const date = new Date(ms);
  const isOff = date.getUTCDay() % 6 === 0 || date.getUTCHours() < 8 || date.getUTCHours() >= 22;
  return scorer === 'coherence' ? (isOff ? 0.4 : 0.3) : undefined;
};
const at24 = { hours: [24, 48, 96] };
const relevance = { subject: 'relevance_to_query', atLeast: 0.95 };

export const CELLS: Readonly<Record<string, Cell>> = {
  'healthy: 1,000 a day': { endpoint: { perDay: 1000 }, hours: DAILY, isOften: true, healthy: 0.95 },
  'healthy: nights and weekends differ': {
    endpoint: { perDay: 1000, hasWeek: true, failing: offHours },
    ...{ hours: DAILY, isOften: true, healthy: 0.95 },
  },
  'healthy: chats of 8 turns': { endpoint: { perDay: 1000, ...CHAT }, hours: DAILY, isOften: true, healthy: 0.8 },
  'healthy: five variants': {
    endpoint: { perDay: 1000, variants: [0.6, 0.1, 0.1, 0.1, 0.1] },
    ...{ hours: DAILY, isOften: true, healthy: 0.95 },
  },
  'healthy: 300 a day': { endpoint: { perDay: 300 }, hours: DAILY, healthy: 0.8 },
  'healthy: 5 a day': { endpoint: { perDay: 5 }, hours: DAILY },
  'healthy: 60 a day, nights and weekends differ': {
    endpoint: { perDay: 60, hasWeek: true, failing: offHours },
    hours: DAILY,
  },
  'healthy: 20,000 a day, nights and weekends differ': {
    endpoint: { perDay: 20_000, hasWeek: true, failing: offHours },
    ...{ hours: DAILY, healthy: 0.95 },
  },
  'healthy: 300 a day, chats': { endpoint: { perDay: 300, ...CHAT }, hours: DAILY },
  'all scorers at 0': {
    endpoint: { perDay: 1000, failing: (_, { ms }) => (ms >= CHANGE_MS ? 1 : undefined) },
    ...{ hours: [2, 6, 24, 48, 168], named: { ...relevance, atLeast: 1 } },
  },
  'never good': {
    endpoint: {
      perDay: 1000,
      failing: (scorer) => (scorer === 'safety' || scorer === 'no_harmful_advice' ? 0.001 : 1),
    },
    ...{ hours: [24, 168], named: { ...relevance, atLeast: 1 } },
  },
  'empty: 6%': {
    endpoint: { perDay: 1000, empty: (ms) => (ms >= CHANGE_MS ? 0.06 : 0) },
    ...{ hours: [12, 24, 48, 168], named: { rule: 'empty-replies', atLeast: 0.95 } },
  },
  'nothing measured': {
    endpoint: { perDay: 1000, isUnmeasured: true },
    ...{ hours: [24, 168], named: { rule: 'unmeasured', atLeast: 1 } },
  },
  '95 to 85%, 1,000 a day': { endpoint: { perDay: 1000, failing: falls }, ...at24, named: relevance, points: 0.1 },
  '95 to 85%, 300 a day': { endpoint: { perDay: 300, failing: falls }, ...at24, named: relevance, points: 0.1 },
  '95 to 85%, 100 a day': {
    endpoint: { perDay: 100, failing: falls },
    hours: [96, 168],
    named: relevance,
    points: 0.1,
  },
  '95 to 85%, 1,000 a day, chats': {
    endpoint: { perDay: 1000, ...CHAT, failing: falls },
    ...{ hours: [48, 96], named: relevance, points: 0.1 },
  },
  '95 to 85%, 300 a day, chats': {
    endpoint: { perDay: 300, ...CHAT, failing: falls },
    ...{ hours: [168], named: relevance, points: 0.1 },
  },
  '95 to 85%, 100 a day, chats': { endpoint: { perDay: 100, ...CHAT, failing: falls }, hours: [24, 96], points: 0.1 },
  'one variant of three falls': {
    endpoint: {
      perDay: 1000,
      variants: [0.34, 0.33, 0.33],
      failing: (scorer, at) => (at.variant === 1 ? falls(scorer, at) : undefined),
    },
    ...{ hours: [24, 48, 96], named: relevance },
  },
  'a decline over two weeks': {
    endpoint: {
      perDay: 1000,
      failing: (scorer, { ms }) =>
        scorer === 'relevance_to_query'
          ? 0.05 + 0.1 * Math.min(1, Math.max(0, (ms - CHANGE_MS) / (14 * DAY_MS)))
          : undefined,
    },
    ...{ hours: [15 * 24, 16 * 24, 18 * 24], named: relevance },
  },
  '98 to 80% at noon': {
    endpoint: {
      perDay: 1000,
      failing: (scorer, at) => (scorer === 'fluency' ? (at.ms >= CHANGE_MS + 12 * HOUR_MS ? 0.2 : 0.02) : undefined),
    },
    ...{ hours: [24], named: { subject: 'fluency', atLeast: 0.95 } },
  },
};
