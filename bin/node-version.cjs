/**
 * Loaded first by what package.json's `engines` is about: with an older Node, it ends the process with one line. In CommonJS
 * and in old syntax, which every Node can load.
 */
const { engines } = require('../package.json');

const wanted = engines.node.replace('>=', '');
const isOlder = process.versions.node.localeCompare(wanted, 'en', { numeric: true }) < 0;
if (isOlder) {
  console.error(`NodeTooOld: This Node is too old; got: ${process.versions.node}; expected: ${wanted} or newer`);
  // As a command that could not do what was asked.
  process.exit(2);
}
