/** docs/a-line.md lists all reasons for which the code puts a line into quarantine, as the table of errors describes them. */
import { globSync, readFileSync } from 'node:fs';
import ERROR_TABLE from '../../../src/core/errors/errors.json' with { type: 'json' };

type Entry = { meaning: string; repair: string };
const errors = new Map<string, Entry>(Object.values(ERROR_TABLE).flatMap((group) => Object.entries<Entry>(group)));

/** What a file that finds such reasons contains. */
const FINDS =
  /\bQuarantineCause\b|kind: 'quarantine'|#refuse\(|WriteTracesResult\['refused'\]|class MlflowRefusedError/;
/** Assessments are refused, too, and an access that is denied is no fault of a line. */
const OTHERS = ['AssessmentRefused', 'MlflowAccessDenied'];

/** The names of errors in those files, without those that are thrown. A refusal by MLflow is thrown and caught. */
const reasons = globSync('src/**/*.ts')
  .map((file) => readFileSync(file, 'utf8'))
  .filter((text) => FINDS.test(text))
  .flatMap((text) => [...text.matchAll(/(?<!Error\(\s*)'([A-Z]\w+)'/g)].map(([, name = '']) => name))
  .filter((name) => errors.has(name) && !OTHERS.includes(name));

const rows = [...readFileSync('docs/a-line.md', 'utf8').matchAll(/^\| `(\w+)` \| [^|]+ \| (.+) \| (.+) \|$/gm)];

it('has each reason once', () => {
  expect(rows.map(([, name]) => name).toSorted()).toEqual([...new Set(reasons)].toSorted());
});

it.each(rows.map(([, ...cells]) => cells))('says of %s the same as docs/errors.md', (name = '', meaning, repair) => {
  expect({ meaning, repair }).toEqual(errors.get(name));
});
