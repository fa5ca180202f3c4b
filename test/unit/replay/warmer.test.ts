/** How many connections are opened ahead of the requests that need them. */
import { type ConnectionNeed, sparesNeeded } from '../../../src/replay/send/warmer.ts';

const need = (more: Partial<ConnectionNeed>): number =>
  sparesNeeded({ soon: 0, peak: 100, inFlight: 0, young: 0, limit: 4096, ...more });

test.each<[string, Partial<ConnectionNeed>, number]>([
  ['all of the next burst when nothing is under way', {}, 100],
  ['none while a burst as large is under way: it gives its connections back', { inFlight: 100, young: 100 }, 0],
  ['what a larger one needs more', { inFlight: 60, young: 60 }, 40],
  ['none when more are under way than will be needed', { inFlight: 300, young: 300 }, 0],
  ['all of it while the target stalls: those under way may not come back', { inFlight: 100, young: 0 }, 100],
  ['all of it when it is due before replies come', { soon: 100, inFlight: 100, young: 100 }, 100],
  ['of a burst that is half sent the other half, and no second set', { soon: 40, inFlight: 60, young: 60 }, 40],
  ['what the cap on concurrency leaves', { inFlight: 30, limit: 50 }, 20],
  ['none above the cap', { inFlight: 50, limit: 50 }, 0],
])('%s', (_, more, spare) => expect(need(more)).toBe(spare));
