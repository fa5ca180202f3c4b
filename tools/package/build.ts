/**
 * `npm run build`: makes what the package has instead of sources, in `dist/`: the command line and the CDK app as
 * plain JavaScript, the functions as zips, and the licenses of what is in them.
 */

import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type BuildOptions, build } from 'esbuild';
import { zipSync } from 'fflate';
import * as z from 'zod';
import { bundleFunctions, REQUIRE } from '../../lib/bundle-functions.ts';
import { asProps, propName } from '../../lib/monitor-props.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { requiredSettings, settingsSchema } from '../../src/core/settings/schema.ts';
import { scorerRecordSchema } from '../../src/judge/functions/contract.ts';
// The programs, and what an app sees. The props are not among that: their types need packages that it does not have.
import FILES from './files.json' with { type: 'json' };

// -------------------------------------------------------------------------------------------------------- licenses
// Of the packages that are bundled, which ask to be passed on with the code.

/** The folder of the innermost package that a file is in. */
const PACKAGE = /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/;
const LICENSE_FILE = /^(?:licen[cs]e|copying|notice)/i;
const RULE = '-'.repeat(80);

/**
 * Lists the packages with their licenses, which ask to be passed on with the code. Packages with the same text are
 * listed together.
 *
 * @param inputs the bundled files, relative to the project
 * @throws Error if a package does not say its license
 */
function thirdPartyNotices(inputs: readonly string[]): string {
  const folders = new Set(inputs.flatMap((file) => PACKAGE.exec(file)?.[0] ?? []));
  const byText = new Map<string, Set<string>>();
  for (const folder of folders) {
    const manifest = JSON.parse(readFileSync(packagePath(folder, 'package.json'), 'utf8'));
    const { name, version, license, author } = manifest as Record<string, unknown>;
    if (typeof license !== 'string') {
      throw new Error(`A bundled package has no license; got: ${folder}; expected: a license in its package.json`);
    }
    const files = readdirSync(packagePath(folder), { withFileTypes: true })
      .filter((entry) => entry.isFile() && LICENSE_FILE.test(entry.name))
      .map((entry) => entry.name)
      .sort();
    const text = files.map((file) => readFileSync(packagePath(folder, file), 'utf8').trim()).join('\n\n');
    const packages = byText.get(text) ?? new Set();
    const by =
      text === '' && author ? `, by ${typeof author === 'string' ? author : (author as { name: string }).name}` : '';
    byText.set(text, packages.add(`${name} ${version} (${license})${by}`));
  }
  const parts = [...byText].map(([text, packages]) => `${[...packages].sort().join('\n')}\n\n${text}`.trim());
  return `This package contains code of the packages below.\n\n${parts.sort().join(`\n\n${RULE}\n\n`)}\n`;
}

// ----------------------------------------------------------------------------------------------------------- types
// Of the construct and of the clients: as the compiler declares them, with the props written out and documented.

const CONSTRUCT = 'lib/inference-monitor.ts';
/** What applications and functions of other people import. */
const CLIENTS = {
  'capture-client': 'src/capture-client/capture-invocations.ts',
  scorers: 'src/judge/functions/serve.ts',
};
const PROPS = 'lib/monitor-props.d.ts';
/** Its schema needs a package that applications do not have. */
const RECORD = 'src/judge/functions/contract.d.ts';

const OPTIONS = [
  ...['--ignoreConfig', '--noCheck', '--declaration', '--emitDeclarationOnly', '--skipLibCheck'],
  ...['--target', 'es2024', '--module', 'nodenext', '--rewriteRelativeImportExtensions', '--rootDir', '.'],
];
/** Writes the declarations, for ES modules to `<folder>/esm` and for CommonJS to `<folder>/cjs`. */
function writeTypes(folder: string): void {
  const made = join(folder, 'made');
  const tsc = packagePath('node_modules', 'typescript', 'bin', 'tsc');
  const args = [tsc, ...OPTIONS, '--outDir', made, CONSTRUCT, ...Object.values(CLIENTS)];
  execFileSync(process.execPath, args, { cwd: packagePath(), stdio: 'inherit' });
  for (const [kind, type] of Object.entries({ esm: 'module', cjs: 'commonjs' })) {
    for (const file of FILES.declared) {
      mkdirSync(join(folder, kind, dirname(file)), { recursive: true });
      // The files are there without their sources.
      writeFileSync(join(folder, kind, file), readFileSync(join(made, file), 'utf8').replace(/\.ts';$/gm, ".js';"));
    }
    writeFileSync(join(folder, kind, PROPS), propsDeclaration());
    const record = typeText(z.toJSONSchema(scorerRecordSchema));
    writeFileSync(join(folder, kind, RECORD), `export type ScorerRecord = ${record};\n`);
    writeFileSync(join(folder, kind, 'package.json'), JSON.stringify({ type }));
  }
  rmSync(made, { recursive: true });
}

const ABOUT =
  'The settings of `.env`, with the same checks. Lists and objects are given as such, and not as the text that they are there.';

/** The props as an interface: each with the comment of its setting in `.env.example`. */
function propsDeclaration(): string {
  const comments = readComments(readFileSync(packagePath('.env.example'), 'utf8'));
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
  if (type === 'array') return `(${typeText(items as z.core.JSONSchema._JSONSchema)})[]`;
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

// ----------------------------------------------------------------------------------------------------- the package

const DIST = packagePath('dist');
const { engines } = JSON.parse(readFileSync(packagePath('package.json'), 'utf8')) as { engines: { node: string } };

const COMMON = {
  absWorkingDir: packagePath(),
  outdir: DIST,
  bundle: true,
  platform: 'node',
  target: engines.node.replace('>=', 'node'),
  // Names stay as they are: an error's stack trace should be readable.
  minifyWhitespace: true,
  minifySyntax: true,
  mainFields: ['module', 'main'],
  // Installed only where the stack is deployed from, and where `sql --local` is used.
  external: ['aws-cdk-lib', 'constructs', '@duckdb/node-api'],
  logLevel: 'warning',
} satisfies BuildOptions;

/** @returns the files that went into the bundle */
async function bundle(options: BuildOptions): Promise<string[]> {
  const { metafile } = await build({ ...COMMON, ...options, metafile: true });
  return Object.keys(metafile.inputs);
}

/**
 * Bundles the programs. Code that several commands share is in chunks, so that a command loads only what it needs.
 */
const buildPrograms = () =>
  bundle({
    entryPoints: FILES.programs,
    chunkNames: 'chunks/[name]-[hash]',
    splitting: true,
    format: 'esm',
    banner: { js: REQUIRE },
  });

/**
 * Bundles the construct as CommonJS, which looks at Node's version first, with an ES module that loads it. A bundle that is an ES
 * module would be linked first, and fail where an older Node lacks what it imports.
 */
async function buildConstruct(): Promise<string[]> {
  const inputs = await bundle({
    entryPoints: { index: CONSTRUCT },
    format: 'cjs',
    outExtension: { '.js': '.cjs' },
    banner: { js: "'use strict';require('../bin/node-version.cjs');" },
    define: { 'import.meta.dirname': '__dirname', 'import.meta.url': '__filename' },
  });
  const esModule = "import construct from './index.cjs';\nexport const { InferenceMonitor } = construct;\n";
  writeFileSync(join(DIST, 'index.js'), esModule);
  return inputs;
}

/**
 * Bundles the clients as ES modules and as CommonJS. The capture client takes the application's own S3 client. Other people's
 * programs may run on an older Node than our commands.
 */
async function buildClients(): Promise<void> {
  for (const [format, extension] of [['esm', '.js'] as const, ['cjs', '.cjs'] as const]) {
    const outExtension = { '.js': extension };
    await bundle({ entryPoints: CLIENTS, target: 'node20', external: ['@aws-sdk/*'], format, outExtension });
  }
}

/** In the fields of a zip, which have no time zone. The same sources give the same bytes: the CDK does not deploy them again. */
const SAME_TIME = new Date(1980, 0, 1);
/** A regular file that everybody may read, as on Unix: Lambda refuses a file that it may not. */
const READABLE = { os: 3, attrs: 0o100644 << 16 };

/** Bundles the functions, and puts each in a zip. @returns the files that went into them */
function zipFunctions(): string[] {
  const { folders, inputs } = bundleFunctions(join(DIST, 'functions'));
  for (const folder of folders.map((name) => join(DIST, 'functions', name))) {
    const files = readdirSync(folder).map((file) => [file, readFileSync(join(folder, file))]);
    writeFileSync(`${folder}.zip`, zipSync(Object.fromEntries(files), { ...READABLE, level: 9, mtime: SAME_TIME }));
    rmSync(folder, { recursive: true });
  }
  return inputs;
}

rmSync(DIST, { recursive: true, force: true });
writeTypes(join(DIST, 'types'));
await buildClients();
const inputs = [...(await buildPrograms()), ...(await buildConstruct()), ...zipFunctions()];
writeFileSync(join(DIST, 'THIRD-PARTY-NOTICES'), thirdPartyNotices(inputs));
