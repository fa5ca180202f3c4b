/** Tests of hostile lines between good ones, and of the fuzzer's first cases. */
import { spawnSync } from 'node:child_process';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { goodLine } from './lines.ts';
import { assertGoodOnesWhole, type PipelineOptions, throughPipeline } from './pipeline.ts';

/** Puts a good line before each hostile one, and one after the last. The good lines have even indexes. */
export const between = (lines: readonly { line: Buffer }[]): Buffer[] => [
  ...lines.flatMap(({ line }, index) => [goodLine(index), line]),
  goodLine(lines.length),
];

/** Lines of fewer bytes behave the same in all versions, and quickly. */
export const isSmall = ({ line }: { line: Buffer }): boolean => line.length < 50_000;

export function testGoodLines(version: PipelineOptions['version'], lines: readonly { line: Buffer }[]): void {
  test(`leave the good lines unchanged in the pipeline with MLflow ${version}`, async () => {
    const mixed = between(lines);
    const good = mixed.map((_, index) => index).filter((index) => index % 2 === 0);
    const outcome = await throughPipeline(mixed, { version });
    assertGoodOnesWhole(outcome, good);
    const alone = await throughPipeline(
      good.map((index) => mixed[index] as Buffer),
      { version },
    );
    const verdictsOf = ({ assessments }: typeof outcome, id: string) =>
      assessments.get(id)?.map(({ name, value, rationale }) => ({ name, value, rationale }));
    for (const id of alone.ids) expect(verdictsOf(outcome, id)).toEqual(verdictsOf(alone, id));
  });
}

export function testFuzzer(cases: number): void {
  test('the fuzzer finds no fault in its first cases', () => {
    const args = [packagePath('test', 'hostile', 'fuzz.ts'), '--cases', String(cases), '--seed', '1'];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect({ status, stdout, stderr }).toMatchObject({ status: 0, stdout: expect.stringContaining('0 faults found') });
  });
}
