/** The types of the construct for the package: as the compiler declares them, with the props written out and documented. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import * as z from 'zod';
import { asProps, propName } from '../../lib/monitor-props.ts';
import { runGuarded } from '../../local/machine/guarded-process.ts';
import { projectPath } from '../../local/project-root.ts';
import { requiredSettings, settingsSchema } from '../../src/core/settings/schema.ts';

/** The files that declare what an app sees. The props are not among them: their types need packages that it does not have. */
const DECLARED = ['lib/inference-monitor.d.ts', 'src/core/contract/names.d.ts'];
const PROPS = 'lib/monitor-props.d.ts';

const OPTIONS = [
  ...['--ignoreConfig', '--noCheck', '--declaration', '--emitDeclarationOnly', '--skipLibCheck'],
  ...['--target', 'es2024', '--module', 'nodenext', '--rewriteRelativeImportExtensions', '--rootDir', '.'],
];
const LIMIT_MS = 240_000;

/** Writes the declarations, for ES modules to `<folder>/esm` and for CommonJS to `<folder>/cjs`. */
export async function writeTypes(folder: string): Promise<void> {
  const made = mkdtempSync(join(tmpdir(), 'types-'));
  try {
    const tsc = projectPath('node_modules', 'typescript', 'bin', 'tsc');
    const { end, tail } = await runGuarded(
      process.execPath,
      [tsc, ...OPTIONS, '--outDir', made, 'lib/inference-monitor.ts'],
      {
        cwd: projectPath(),
        logFile: join(made, 'tsc.log'),
        env: { ...process.env } as Record<string, string>,
        limitMs: LIMIT_MS,
      },
    );
    if (end !== 'exit code 0')
      throw new Error(`The types were not made; got: ${end}; expected: exit code 0; output:\n${tail}`);
    for (const [kind, type] of [
      ['esm', 'module'],
      ['cjs', 'commonjs'],
    ] as const) {
      for (const file of DECLARED) {
        mkdirSync(join(folder, kind, dirname(file)), { recursive: true });
        // The files are there without their sources.
        writeFileSync(join(folder, kind, file), readFileSync(join(made, file), 'utf8').replace(/\.ts';$/gm, ".js';"));
      }
      writeFileSync(join(folder, kind, PROPS), propsDeclaration());
      writeFileSync(join(folder, kind, 'package.json'), JSON.stringify({ type }));
    }
  } finally {
    rmSync(made, { recursive: true });
  }
}

const ABOUT =
  'The settings of `.env`, with the same checks. Lists and objects are given as such, and not as the text that they are there.';

/** The props as an interface: each with the comment of its setting in `.env.example`. */
function propsDeclaration(): string {
  const comments = readComments(readFileSync(projectPath('.env.example'), 'utf8'));
  const props = Object.entries(settingsSchema.shape).map(([name, schema]) => {
    const optional = name === 'STACK_PREFIX' || !(name in requiredSettings);
    const type =
      name === 'DATA_CAPTURE_S3_BUCKET'
        ? 'string | IBucket'
        : propType(z.toJSONSchema(schema, { unrepresentable: 'any' }));
    return `  /** ${comments.get(name)} */\n  ${propName(name)}${optional ? '?' : ''}: ${type};\n`;
  });
  return `import type { IBucket } from 'aws-cdk-lib/aws-s3';\n/** ${ABOUT} */\nexport interface InferenceMonitorProps {\n${props.join('')}}\n`;
}

/** Returns the comment above each setting, with the names of props. */
function readComments(example: string): Map<string, string> {
  const comments = new Map<string, string>();
  let above: string[] = [];
  for (const line of example.split('\n')) {
    const name = /^#?([A-Z][A-Z0-9_]+)=/.exec(line)?.[1];
    if (name !== undefined) comments.set(name, asProps(above.join('\n   * ')));
    above = line.startsWith('# ') ? [...above, line.slice(2)] : [];
  }
  return comments;
}

/** A setting's type. Texts that are changed as they are read, such as `true` to a boolean, have none in their schema. */
function propType(schema: z.core.JSONSchema._JSONSchema): string {
  const text = typeText(schema);
  if (text !== 'unknown') return text;
  return typeof schema === 'object' && typeof schema.default === 'boolean' ? 'boolean' : 'string';
}

/** A JSON Schema as a type. */
function typeText(schema: z.core.JSONSchema._JSONSchema): string {
  if (typeof schema === 'boolean') return 'unknown';
  const { type, items, additionalProperties, properties, required = [] } = schema;
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(' | ');
  if (schema.anyOf) return schema.anyOf.map(typeText).join(' | ');
  if (type === 'array') return `${typeText(items as z.core.JSONSchema._JSONSchema)}[]`;
  if (properties) {
    const fields = Object.entries(properties).map(
      ([name, each]) => `${name}${required.includes(name) ? '' : '?'}: ${typeText(each)}`,
    );
    return `{ ${fields.join('; ')} }`;
  }
  if (type === 'object') return `Record<string, ${typeText(additionalProperties ?? true)}>`;
  if (type === 'string' || type === 'number' || type === 'integer') return type === 'integer' ? 'number' : type;
  return 'unknown';
}
