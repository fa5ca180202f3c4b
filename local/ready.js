/**
 * Loaded before a command's own files (`node --import`), and plain JavaScript: says what to do where Node cannot run
 * TypeScript, or where the packages are missing, instead of the error that Node would print.
 */
import { existsSync } from 'node:fs';
import module from 'node:module';

const installed = existsSync(new URL('../node_modules/.package-lock.json', import.meta.url));
if (!installed || !process.features.typescript) {
  console.error(
    installed
      ? `Node ${process.version} does not run TypeScript; expected: the Node that npm ci installs, by npm run, or Node 22.18 or newer`
      : 'The packages of this project are missing; run: npm ci',
  );
  process.exit(1);
}
// Between one command and the next what was compiled is kept, in the system's folder for temporary files.
module.enableCompileCache();
