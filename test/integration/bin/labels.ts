import { CONTRACT } from '../../../src/core/contract/contract.ts';
import type { LabelFileReport, TruthRunSummary } from '../../../src/core/contract/ground-truth.ts';
import { TRUTH_BEGINS } from '../../../src/core/contract/ground-truth.ts';
import { areaOf, truthKeys } from '../../../src/core/contract/work-keys.ts';
import { captureLine, csv, json } from '../../helpers/deployed-captures.ts';
import { DeployedPipeline, type Outcome } from '../../helpers/deployed-pipeline.ts';
import { MlflowApi } from '../../helpers/mlflow-api.ts';
import { ENDPOINT, environment, HOUR, LABELS, PREFIX, pipeline } from './stack.ts';

const call = (name: string, predicted: number): string =>
  captureLine(
    name,
    '2026-11-20T10:07:00Z',
    csv('1,2'),
    json({ predictions: [{ predicted_label: predicted, score: predicted ? 0.9 : 0.2 }] }),
  );
const idOf = (line: string): string =>
  (JSON.parse(line) as { eventMetadata: { eventId: string } }).eventMetadata.eventId;
/** As SageMaker Model Monitor has it. */
const label = (line: string, data: string): string =>
  `{"groundTruthData":{"data":"${data}","encoding":"CSV"},"eventMetadata":{"eventId":"${idOf(line)}"},"eventVersion":"0"}`;

/** The same stack, with the state machine of labels. */
let labels: DeployedPipeline;
beforeAll(() => {
  const { groundTruthStateMachineArn: stateMachineArn } = pipeline.outputs;
  labels = new DeployedPipeline(environment, PREFIX, { ...pipeline.outputs, stateMachineArn });
});

async function summaryOf({ name, status, error, cause }: Outcome): Promise<TruthRunSummary> {
  expect({ status, error, cause }).toEqual({ status: 'SUCCEEDED' });
  const [summary] = await pipeline.readWork<TruthRunSummary>(truthKeys.summary(name));
  return summary as TruthRunSummary;
}
const reportOf = async (key: string): Promise<LabelFileReport | undefined> =>
  (await pipeline.readWork<LabelFileReport>(areaOf('truthFiles'))).find((report) => report.key === key);

/** The values of the expectations on the trace of a capture. */
async function expectations(line: string): Promise<unknown[]> {
  const traces = await new MlflowApi(environment.mlflowUrl).tracesIn(ENDPOINT, `tag.event_id = '${idOf(line)}'`);
  return traces.flatMap(({ assessments = [] }) =>
    assessments.filter((each) => each.assessment_name === 'ground_truth').map((each) => each.expectation?.value),
  );
}

describe('a label file', () => {
  test('is joined, measured and published by the run that its rule starts, and its bad line is named', async () => {
    const [right, wrong] = [call('label-right', 1), call('label-wrong', 1)] as const;
    await pipeline.process(`${HOUR}/labeled.jsonl`, [right, wrong]);
    const key = `${LABELS}late.jsonl`;
    const summary = await summaryOf(await labels.process(key, [label(right, '1'), label(wrong, '0'), '{"id":']));
    expect(summary.counts).toMatchObject({ lines: 3, joined: 2, invalid: 1, waiting: 0 });
    expect(summary.noted).toBe(2);
    expect(await reportOf(key)).toMatchObject({ counts: summary.counts, faults: [{ line: 3 }] });
    expect(await expectations(right)).toHaveLength(1);
    expect(await expectations(wrong)).toHaveLength(1);
    expect(await expectations(right)).not.toEqual(await expectations(wrong));
    expect(await pipeline.readWork(truthKeys.reports('2026-11-20', 'statistics.json'))).toHaveLength(1);
  });

  test('that comes before its capture is joined by the run that the capture starts', async () => {
    const early = call('label-early', 0);
    const key = `${LABELS}early.jsonl`;
    const summary = await summaryOf(await labels.process(key, [label(early, '0')]));
    expect(summary.counts).toMatchObject({ lines: 1, joined: 0, waiting: 1 });
    await pipeline.process(`${HOUR}/early.jsonl`, [early]);
    const counts = await labels.until('the label to be joined', async () => {
      const report = await reportOf(key);
      return report?.counts.joined === 1 ? report.counts : undefined;
    });
    expect(counts).toMatchObject({ lines: 1, waiting: 0 });
    await labels.until('the label to be published', async () =>
      (await expectations(early)).length === 1 ? true : undefined,
    );
  });

  test('that cannot be used raises the metric of its alarm', async () => {
    // An upload by a person starts no run by itself.
    const key = truthKeys.upload('no-id.csv');
    await pipeline.storage.putText(pipeline.outputs.workBucket, key, 'age,label\n41,1\n');
    const run = { name: 'by-hand', arn: 'arn:by-hand', startTime: new Date().toISOString() };
    const input = { bucket: pipeline.outputs.workBucket, key };
    // The emulator may answer before it has read the last lines of the log.
    await labels.until('the metric of a file that cannot be used', async () => {
      const request = { contract: CONTRACT, input, run, state: TRUTH_BEGINS, scorers: [] };
      const { error, payload, log } = await pipeline.invoke('joiner', request);
      expect({ error, payload }).toMatchObject({ payload: { more: false } });
      return /"LabelsInvalid":1\b/.test(log) ? true : undefined;
    });
    expect(await reportOf(key)).toMatchObject({ error: { name: 'NoIdColumn' } });
  });
});
