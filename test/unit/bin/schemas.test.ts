/** The schemas in `schemas/` are made from the types of what `--json` prints. UPDATE_SCHEMAS=1 writes them. */
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import * as z from 'zod';
import { COMMANDS } from '../../../bin/commands.ts';
import { packagePath } from '../../../src/core/process/package-folder.ts';
import { scorerReplySchema, scorerRequestSchema } from '../../../src/judge/functions/contract.ts';

const fileOf = (command: string): string => packagePath('schemas', `${command}.json`);
const commands = Object.entries(COMMANDS);
const scorers = { 'scorer-request': scorerRequestSchema, 'scorer-reply': scorerReplySchema };
let made: Record<string, object>;

beforeAll(() => {
  made = JSON.parse(
    execFileSync(process.execPath, [packagePath('test', 'helpers', 'json-schemas.ts')], { encoding: 'utf8' }),
  );
  for (const [name, schema] of Object.entries(scorers))
    made[name] = { title: name.replace('-', ' function: '), ...z.toJSONSchema(schema, { io: 'input' }) };
  if (process.env.UPDATE_SCHEMAS === undefined) return;
  for (const [name, schema] of Object.entries(made))
    writeFileSync(fileOf(name), `${JSON.stringify(schema, null, 2)}\n`);
});

test.each(commands)('%s publishes what --json prints', async (name, load) => {
  const printsJson = (await load()).options.some(({ long }) => long === '--json');
  expect(name in made).toBe(printsJson);
  if (printsJson) expect(JSON.parse(readFileSync(fileOf(name), 'utf8'))).toEqual(made[name]);
});

test('errors and scorer functions have schemas, and a command that is gone has none', () => {
  const others = ['error', ...Object.keys(scorers)];
  for (const name of others) expect(JSON.parse(readFileSync(fileOf(name), 'utf8'))).toEqual(made[name]);
  const files = globSync('*.json', { cwd: packagePath('schemas') });
  for (const file of files) expect([...Object.keys(COMMANDS), ...others]).toContain(file.replace('.json', ''));
});

test.each(['scorer-request', 'scorer-reply'] as const)('the %s of the documentation is in form', (name) => {
  const page = readFileSync(packagePath('docs', 'judging.md'), 'utf8');
  const [, example = ''] = new RegExp(`<!-- test: ${name} -->\n\`\`\`json\n(.*?)\`\`\``, 's').exec(page) ?? [];
  expect(scorers[name].safeParse(JSON.parse(example))).toMatchObject({ success: true });
});
