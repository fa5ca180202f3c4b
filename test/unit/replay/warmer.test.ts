/** The number of connections that are opened ahead of the requests that need them. */
import { sparesNeeded } from '../../../src/replay/send/warmer.ts';

type ConnectionNeed = Parameters<typeof sparesNeeded>[0];

const need = (more: Partial<ConnectionNeed>): number =>
  sparesNeeded({ soon: 0, peak: 100, inFlight: 0, young: 0, limit: 4096, ...more });

test.each<[string, Partial<ConnectionNeed>, number]>([
  ['opens all for the next burst if nothing is in flight', {}, 100],
  [
    'opens none while a burst of the same size is in flight, since it returns its connections',
    { inFlight: 100, young: 100 },
    0,
  ],
  ['opens the difference for a larger burst', { inFlight: 60, young: 60 }, 40],
  ['opens none if more requests are in flight than will be due', { inFlight: 300, young: 300 }, 0],
  ['opens all while the target stalls, since no connection may be returned', { inFlight: 100, young: 0 }, 100],
  ['opens all for a burst that is due before the replies', { soon: 100, inFlight: 100, young: 100 }, 100],
  ['opens only the other half of a burst that is half sent', { soon: 40, inFlight: 60, young: 60 }, 40],
  ['opens no more than the concurrency cap allows', { inFlight: 30, limit: 50 }, 20],
  ['opens none at the concurrency cap', { inFlight: 50, limit: 50 }, 0],
])('%s', (_, more, spare) => expect(need(more)).toBe(spare));
