/** Simulates the weeks of a cell, and asks for the state as `status` does. Prints a `Looked` as the last line. */
import { DAY_MS } from '../../src/captures/files/capture-path.ts';
import { type Health, healthOf } from '../../src/health/findings.ts';
import { hourMs } from '../../src/quality/counts-store.ts';
import { CELLS, type Cell } from './cells.ts';
import { ACTIVE, CHANGE_MS, type Simulated, simulate } from './weeks.ts';

export interface Looked {
  looks: number;
  /** Looks with a finding, and those that name what is wrong. */
  found: number;
  named: number;
  healthy: number;
  /** Looks that call the endpoint healthy, and exclude what is there. */
  untrue: number;
}

const FINDINGS: readonly string[] = ['bad', 'needs a look', 'not measured'];

function statusAt({ cells, history }: Simulated, nowMs: number): Health {
  const window = { fromMs: nowMs - DAY_MS, toMs: nowMs };
  const own = cells.filter(({ hour }) => hourMs(hour) >= window.fromMs && hourMs(hour) < nowMs);
  const asked = { failedRuns: { runs: [] }, alarms: [], budget: { usd: 0, limit: 0 } };
  return healthOf({ ...asked, window, cells: own, history, active: ACTIVE, shadow: [], objectives: [], nowMs });
}

/** Whether a healthy state excludes a fall of these points that has held for a whole span. */
function excludes({ state, findings }: Health, points: number, hours: number): boolean {
  const { message = '' } = findings.find(({ name }) => name === 'excluded') ?? {};
  const [, ofDay, ofThree] =
    /no scorer is (\d+) points? worse in 24 hours(?:, nor (\d+) points? in three days)?/.exec(message) ?? [];
  const isSaid = (said: string | undefined, least: number) =>
    hours >= least && said !== undefined && 100 * points > Number(said);
  return state === 'healthy' && (isSaid(ofDay, 24) || isSaid(ofThree, 72));
}

function lookAt({ endpoint, hours, named, points = 0 }: Cell, weeks: number): Looked {
  const looked: Looked = { looks: 0, found: 0, named: 0, healthy: 0, untrue: 0 };
  const days = 42 + Math.ceil(Math.max(...hours) / 24);
  for (let week = 1; week <= weeks; week += 1) {
    const simulated = simulate(endpoint, days, week);
    for (const after of hours) {
      const health = statusAt(simulated, CHANGE_MS + after * 3_600_000);
      const found = health.findings.filter(({ state }) => FINDINGS.includes(state));
      looked.looks += 1;
      looked.found += Number(found.length > 0);
      looked.named += Number(
        found.some(
          ({ name, subject }) => name === named?.rule || (named?.subject !== undefined && subject === named.subject),
        ),
      );
      looked.healthy += Number(health.state === 'healthy');
      looked.untrue += Number(excludes(health, points, after));
    }
  }
  return looked;
}

const [name = '', weeks] = process.argv.slice(2);
const cell = CELLS[name];
if (cell === undefined) throw new Error(`no cell ${name}`);
console.log(JSON.stringify(lookAt(cell, Number(weeks))));
