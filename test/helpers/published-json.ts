/** What `--json` prints, against the schemas that the package publishes. */
import { existsSync } from 'node:fs';
import * as z from 'zod';
import { projectPath } from '../../local/project-root.ts';

/** Returns the schema of a command: the export `<command>Json` of its own file, or of the file in `bin/json`. */
export async function publishedSchema(command: string): Promise<z.ZodType | undefined> {
  const name = `${command.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase())}Json`;
  for (const folder of ['json', 'commands']) {
    const file = projectPath('bin', folder, `${command}.ts`);
    const found: unknown = existsSync(file) ? (await import(file))[name] : undefined;
    if (found instanceof z.ZodType) return found;
  }
  return undefined;
}

/** Expects that a schema describes the whole of a command's output. Returns the output. */
export async function expectPublished(command: string, stdout: string): Promise<unknown> {
  const printed: unknown = JSON.parse(stdout);
  const schema = await publishedSchema(command);
  // Fields that the schema does not name are left out.
  expect(schema?.parse(printed)).toEqual(printed);
  return printed;
}
