/** The function's check that V8 took its limit: with real processes, since flags of the command line win. */
import { spawnSync } from 'node:child_process';
import { nodeOptions } from '../../../lib/settings/function-environment.ts';
import type { heapFigures } from '../../../src/core/process/heap.ts';
import { packagePath } from '../../../src/core/process/package-folder.ts';

const SCRIPT = `import { heapFigures } from '${packagePath('src/core/process/heap.ts')}'; console.log(JSON.stringify(heapFigures()))`;

function figures(options: string, commandLine: string[] = []) {
  const child = spawnSync(process.execPath, [...commandLine, '--input-type=module', '--eval', SCRIPT], {
    env: { ...process.env, NODE_OPTIONS: options },
    encoding: 'utf8',
  });
  return JSON.parse(child.stdout) as ReturnType<typeof heapFigures>;
}

test('the limits of every size of function are exactly those that the stack sets', () => {
  for (const memoryMb of [512, 1024, 10_240]) {
    const { heapLimitMb, heapAskedMb, ignored } = figures(nodeOptions(memoryMb));
    expect({ memoryMb, heapLimitMb, ignored }).toEqual({ memoryMb, heapLimitMb: heapAskedMb, ignored: false });
  }
});

test('flags on the command line, as in the bootstraps of older runtimes, are found', () => {
  const flags = ['--max-semi-space-size=32', '--max-old-space-size=921'];
  const found = figures(nodeOptions(1024), flags);
  expect(found).toMatchObject({ heapLimitMb: 1017, heapAskedMb: 671, ignored: true });
  expect(found.commandLine).toEqual(expect.arrayContaining(flags));
  expect(figures(nodeOptions(1024), flags.slice(0, 1)).ignored).toBe(true);
  expect(figures(nodeOptions(1024), flags.slice(1)).ignored).toBe(true);
});

test('a function that sets no sizes has nothing to compare', () => {
  expect(figures('')).toMatchObject({ ignored: false });
  expect(figures('').heapAskedMb).toBeUndefined();
});
