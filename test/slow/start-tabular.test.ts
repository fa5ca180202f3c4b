/** `npm start -- examples/tabular`, to its table of quality. */
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import { startCommand } from '../helpers/start-command.ts';

test('the labels in the folder of captures are joined, and the output ends with the table of quality', async () => {
  await defaultPythonEnvironment();
  const { FUNCTION_BUNDLES = '' } = process.env;
  const start = startCommand(['examples/tabular', '--exit'], { FUNCTION_BUNDLES });
  expect([await start.code, start.output()]).toEqual([0, expect.any(String)]);
  const output = start.output();
  expect(output).toMatch(/^captured 171, traced 171, /m);
  expect(output).toMatch(/no scorer is asked of half of the captures/);
  expect(output).toMatch(/^all +497 +489 +5 +1 +1 +1$/m);
  expect(output).toMatch(/^3-letters-2026-12-04\.jsonl:91: NotALabel: /m);
  expect(output).toMatch(/^3-letters-2026-12-04\.jsonl:237: renewal-682b4650ce_0 was 0, and is 1 now$/m);
  expect(output).toMatch(/^blue +241 +78\.0% .*\ngreen +248 +87\.1% /m);
});
