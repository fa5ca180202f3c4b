/** The schemas in `schemas/` are those of what `--json` prints. UPDATE_SCHEMAS=1 writes them. */
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import * as z from 'zod';
import { COMMANDS } from '../../../../bin/cli/commands.ts';
import { projectPath } from '../../../../local/project-root.ts';
import { publishedSchema } from '../../../helpers/published-json.ts';

const fileOf = (command: string): string => projectPath('schemas', `${command}.json`);

describe.each(Object.entries(COMMANDS))('%s', (name, { load }) => {
  test('publishes what --json prints', async () => {
    const printsJson = (await load()).options.some(({ long }) => long === '--json');
    const schema = await publishedSchema(name);
    expect(schema !== undefined).toBe(printsJson);
    if (schema === undefined) return;
    // Later versions may print more: a reader has to ignore fields that it does not know.
    const published = { title: `inference-monitor ${name} --json`, ...z.toJSONSchema(schema, { io: 'input' }) };
    if (process.env.UPDATE_SCHEMAS) {
      mkdirSync(projectPath('schemas'), { recursive: true });
      writeFileSync(fileOf(name), `${JSON.stringify(published, null, 2)}\n`);
    }
    expect(existsSync(fileOf(name)) && JSON.parse(readFileSync(fileOf(name), 'utf8'))).toEqual(published);
  });
});

test('there is no schema of a command that is gone', () => {
  const files = globSync('*.json', { cwd: projectPath('schemas') });
  for (const file of files) expect(Object.keys(COMMANDS)).toContain(file.replace('.json', ''));
});
