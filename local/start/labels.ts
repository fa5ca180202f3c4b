/**
 * The labels next to the captures that `npm start` processes. They are uploaded one file after the other to the
 * location that the stack watches.
 */

import { existsSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type EndpointCaptures, filesBelow } from '../../bin/operate/capture-files.ts';
import { processFiles, type Run } from '../../bin/operate/process-files.ts';
import { type LabelFileState, readTruthReport, truthFigures } from '../../bin/operate/truth-run.ts';
import { LABELS_FOLDER } from '../../src/captures/files/capture-path.ts';
import { Storage } from '../../src/core/aws/storage.ts';
import type { Settings } from '../../src/core/settings/schema.ts';
import { isLabelFile } from '../../src/ground-truth/labels/read-labels.ts';
import { CAPTURE_BUCKET, type DeployedEndpoint, type LocalEnvironment, labelPrefix } from './environment.ts';

export type LabelsReport = Awaited<ReturnType<typeof processLabels>>;

/**
 * Returns the label files in the folder `labels` of the captures, sorted by name, which is the order of their upload.
 *
 * @throws Error if the captures belong to several endpoints
 */
export async function findLabels(captures: string, endpoints: readonly EndpointCaptures[]): Promise<string[]> {
  const folder = join(captures, LABELS_FOLDER);
  const isThere = existsSync(folder) && statSync(folder).isDirectory();
  const labels = isThere ? await filesBelow(folder, isLabelFile) : [];
  if (labels.length === 0 || endpoints.length === 1) return labels;
  const names = endpoints.map(({ endpoint }) => endpoint).join(', ');
  throw new Error(
    `Labels are of one endpoint; got: ${folder}, and captures of ${names}; expected: the folder of one endpoint, or one name for all with --endpoint`,
  );
}

/** Uploads the files, follows their runs, and reads their reports. @throws the errors of `processFiles` */
export async function processLabels(
  { clients }: LocalEnvironment,
  { endpoint, outputs }: DeployedEndpoint,
  labels: readonly string[],
  options: {
    settings: Pick<Settings, 'GROUND_TRUTH' | 'SHADOW_VARIANTS'>;
    startLimitMs: number;
    signal: AbortSignal;
    show(text: string): void;
  },
) {
  const { groundTruthStateMachineArn: stateMachineArn, workBucket } = outputs;
  const { settings, show, ...limits } = options;
  const runs: Run[] = [];
  const files: LabelFileState[] = [];
  for (const path of labels) {
    show(`Labels of ${basename(path)} …`);
    const file = { path, key: labelPrefix(endpoint) + basename(path), bytes: statSync(path).size };
    const own = { clients, captureBucket: CAPTURE_BUCKET, workBucket, stateMachineArn, files: [file], ...limits };
    const ofFile = await processFiles(own);
    runs.push(...ofFile);
    for (const { arn } of ofFile) files.push(...(await readTruthReport(clients, workBucket, arn)).files);
  }
  const query = { by: 'variant', shadow: settings.SHADOW_VARIANTS } as const;
  /** `figures`: absent if no label was joined. */
  return {
    runs,
    files,
    figures: await truthFigures(new Storage(clients.s3), workBucket, settings.GROUND_TRUTH, query),
  };
}
