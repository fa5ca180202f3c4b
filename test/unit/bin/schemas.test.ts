/** The schemas in `schemas/` are made from the types of what `--json` prints. UPDATE_SCHEMAS=1 writes them. */
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { COMMANDS } from '../../../bin/commands.ts';
import { packagePath } from '../../../src/core/process/package-folder.ts';

const fileOf = (command: string): string => packagePath('schemas', `${command}.json`);
const commands = Object.entries(COMMANDS);
let made: Record<string, object>;

beforeAll(() => {
  made = JSON.parse(
    execFileSync(process.execPath, [packagePath('test', 'helpers', 'json-schemas.ts')], { encoding: 'utf8' }),
  );
  if (process.env.UPDATE_SCHEMAS === undefined) return;
  for (const [name, schema] of Object.entries(made))
    writeFileSync(fileOf(name), `${JSON.stringify(schema, null, 2)}\n`);
});

test.each(commands)('%s publishes what --json prints', async (name, load) => {
  const printsJson = (await load()).options.some(({ long }) => long === '--json');
  expect(name in made).toBe(printsJson);
  if (printsJson) expect(JSON.parse(readFileSync(fileOf(name), 'utf8'))).toEqual(made[name]);
});

test('errors have a schema, and a command that is gone has none', () => {
  expect(JSON.parse(readFileSync(fileOf('error'), 'utf8'))).toEqual(made.error);
  const files = globSync('*.json', { cwd: packagePath('schemas') });
  for (const file of files) expect([...Object.keys(COMMANDS), 'error']).toContain(file.replace('.json', ''));
});
