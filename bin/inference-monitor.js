#!/usr/bin/env node
/** Starts the command line: in a clone from its sources, in the package from what was built of them. */
import { existsSync } from 'node:fs';

const sources = new URL('./inference-monitor.ts', import.meta.url);
if (existsSync(sources)) {
  await import('./ready.js');
  await import(sources.href);
} else {
  await import('./node-version.cjs');
  await import('../dist/inference-monitor.js');
}
