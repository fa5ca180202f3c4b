/** The Python packages, installed as their pages say: what they are, and that mypy checks their callers. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { defaultPythonEnvironment, lockedEnvironment } from '../../local/python/python-presets.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { run } from '../helpers/package.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

test.each([
  ['python', 'capture', 'capture_typed.py', ['[assignment]', '[arg-type]', '[attr-defined]']],
  ['python-scorers', 'scorers', 'scorer_typed.py', ['[call-arg]', '[attr-defined]']],
])(
  'clients/%s has a licence, links and types, and leaves nothing in the checkout',
  async (place, name, typed, wrong) => {
    const source = packagePath('clients', place);
    const before = readdirSync(source);
    const folder = temporaryFolder('wheel-');
    const python = join(folder, 'bin', 'python');
    await run((await defaultPythonEnvironment()).python, ['-m', 'venv', folder]);
    await run(python, ['-m', 'pip', 'install', '--quiet', source]);
    expect(readdirSync(source)).toEqual(before);
    const told = `import importlib.metadata as m; d = m.distribution("sagemaker-inference-monitor-${name}")
print(d.metadata["License-Expression"], len(d.metadata.get_all("Project-URL")), d.read_text("licenses/LICENSE"), end="")`;
    const licence = readFileSync(packagePath('LICENSE'), 'utf8');
    expect((await run(python, ['-c', told])).stdout).toBe(`MIT-0 4 ${licence}`);
    const { python: withMypy } = await lockedEnvironment('capture-apps');
    const check = async (...words: string[]) => {
      const options = ['--strict', '--python-executable', python, '--cache-dir', join(folder, 'cache')];
      return (await run(withMypy, ['-m', 'mypy', ...options, ...words], { cwd: source }).catch((error) => error))
        .stdout;
    };
    expect(await check(`sagemaker_inference_monitor_${name}`)).toMatch(/^Success: no issues found/);
    const found = await check(packagePath('test', 'helpers', typed));
    expect(found.match(/\[[\w-]+\]$/gm)).toEqual(wrong);
  },
);
