import { availableParallelism } from 'node:os';
import './bin/node-version.cjs';

const toCommonJs = [
  '@swc/jest',
  {
    jsc: { target: 'es2024', parser: { syntax: 'typescript' } },
    module: { type: 'commonjs', importInterop: 'swc' },
  },
];

/** Packages that are published as ES modules alone, which jest cannot load as they are. */
const esmOnly = '(?:commander|franc|hyparquet|hyparquet-writer|trigram-utils|n-gram|collapse-white-space)/';

/**
 * One jest project per level of test; a level is chosen with --selectProjects. In package.json, an option with `=` follows
 * the levels: otherwise jest takes the paths that a developer adds for further levels.
 */
const common = {
  rootDir: import.meta.dirname,
  testEnvironment: '<rootDir>/test/aws-requests/environment.ts',
  transform: { '^.+\\.ts$': toCommonJs, [`/node_modules/${esmOnly}.+\\.js$`]: toCommonJs },
  transformIgnorePatterns: [`/node_modules/(?!${esmOnly})`],
  modulePathIgnorePatterns: ['<rootDir>/cdk.out', '<rootDir>/.local', '<rootDir>/.venvs'],
  setupFiles: ['<rootDir>/test/helpers/clean-shell.ts'],
  // At each use, a global is looked up through the sandbox, which takes longer than what most of these do. Not Buffer, which
  // packages declare again, nor what fake timers replace.
  sandboxInjectedGlobals: (
    'Array ArrayBuffer BigInt Boolean DataView Error Float64Array Int32Array Intl JSON Map Math Number Object ' +
    'Promise Reflect RegExp Set String Symbol TypeError Uint16Array Uint32Array Uint8Array WeakMap WeakSet'
  ).split(' '),
};

const level = (name, extra = {}) => ({
  ...common,
  displayName: name,
  testMatch: [`<rootDir>/test/${name}/**/*.test.ts`],
  ...extra,
});

const withPython = { globalSetup: '<rootDir>/test/helpers/python-environments.ts' };
const withAwsChecks = { globalSetup: '<rootDir>/test/helpers/aws-checks-environment.ts' };

/** Tests wait for servers almost as long as they compute: four at a time leave a sixth of two cores idle. */
const maxWorkers = Math.max(5, availableParallelism() - 1);

export default {
  maxWorkers,
  testSequencer: '<rootDir>/test/helpers/longest-first.js',
  // For a machine that other work keeps busy, or that is slow: no test measures time, and a hanging one still ends.
  testTimeout: 300_000,
  projects: [
    level('unit'),
    level('infra', withAwsChecks),
    level('integration', withPython),
    level('matrix'),
    level('faults'),
    level('memory'),
    level('slow', withPython),
  ],
};
