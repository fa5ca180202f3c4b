/**
 * Loaded before a command's own files (`node --import`), in plain JavaScript. If Node cannot run TypeScript, or the packages
 * are missing, it says what to do instead of letting Node fail with its own error.
 */
import { existsSync } from 'node:fs';
import module from 'node:module';

const installed = existsSync(new URL('../node_modules/.package-lock.json', import.meta.url));
if (!installed || !process.features.typescript) {
  console.error(
    installed
      ? `Node ${process.version} cannot run TypeScript; expected: Node 22.18 or newer, or the Node that npm ci installs, which npm run uses`
      : 'The packages of this project are missing; run: npm ci',
  );
  process.exit(1);
}
// Keeps compiled code for the next command, in the system's folder for temporary files.
module.enableCompileCache();
