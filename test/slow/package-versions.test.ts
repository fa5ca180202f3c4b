/** The installed package on every Node that it is made for: each command's help, and what works without a stack. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { COMMANDS } from '../../bin/commands.ts';
import { installPackage, nodeOf, run } from '../helpers/package.ts';
import { captureLine } from '../helpers/replay.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

/** The oldest of the major version that is documented, and the newest of each. */
const VERSIONS = ['22.19.0', '22', '24', '26'];

let folder: string;
beforeAll(async () => {
  folder = temporaryFolder('versions-');
  await installPackage(folder);
});

/** Lines of captures with what an older JavaScript has not: numbers beyond a double, and two sessions in one replay. */
const CAPTURES = [
  { messages: [{ role: 'user', content: 'one' }], seed: 1 },
  { messages: [{ role: 'user', content: 'two' }] },
].map((request, n) => {
  const data = JSON.stringify(request).replace('"seed":1', '"seed":12345678901234567890123');
  const reply = { choices: [{ message: { role: 'assistant', content: 'yes' } }], usage: { completion_tokens: 3 } };
  return captureLine(`e${n}`, n, { data }, { data: JSON.stringify(reply) });
});

test('prints the same on all of them', async () => {
  writeFileSync(join(folder, 'captures.jsonl'), `${CAPTURES.join('\n')}\n`);
  const commandLines = [
    ['--version'],
    ['--help'],
    ...Object.keys(COMMANDS).map((name) => [name, '--help']),
    ['replay', 'captures.jsonl', '--dry-run', '--json'],
    ['inspect', 'captures.jsonl', '--json'],
    ['inspect', 'captures.jsonl:1', '--json'],
    // They end with an error, which is the same, too.
    ['rates', '--stack', 'none'],
    ['calibrate', '--anchors', '--judge-model', 'vendor.new-model'],
    ['replay', 'captures.jsonl', '--url', 'http://127.0.0.1:1'],
  ];
  const printed: Record<string, string>[] = [];
  for (const version of VERSIONS) {
    const node = await nodeOf(version);
    const script = join(folder, 'node_modules', 'sagemaker-inference-monitor', 'bin', 'inference-monitor.js');
    const outputs: Record<string, string> = {};
    for (const words of commandLines) {
      const { stdout, stderr } = await run(node, [script, ...words], { cwd: folder }).catch((error) => error);
      outputs[words.join(' ')] = `${stdout}${stderr}`;
    }
    printed.push(outputs);
  }
  const [oldest, ...others] = printed;
  expect(oldest?.['inspect captures.jsonl:1 --json']).toContain('12345678901234567890123');
  for (const other of others) expect(other).toEqual(oldest);
});
