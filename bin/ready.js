/**
 * Loaded before a command's own files (`node --import`), in plain JavaScript. If the packages are missing, or Node is too old, it
 * says so instead of letting Node fail with its own error.
 */
import { existsSync } from 'node:fs';
import module from 'node:module';

// First, since npm ci also installs the Node that npm run uses.
if (!existsSync(new URL('../node_modules/.package-lock.json', import.meta.url))) {
  console.error('The packages of this project are missing; run: npm ci');
  process.exit(2);
}
await import('./node-version.cjs');
// Keeps compiled code for the next command, in the system's folder for temporary files.
module.enableCompileCache();
