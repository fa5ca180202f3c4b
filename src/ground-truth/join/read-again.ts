/** Reads the labels of a segment again from their file: a masked label is compared with predictions under other keys, or under none. */

import type { Label, LabelFileReport } from '../../core/contract/ground-truth.ts';
import { truthKeys } from '../../core/contract/work-keys.ts';
import { readLabels } from '../labels/read-labels.ts';
import { labelForms } from '../masked.ts';
import type { StepDependencies } from '../types.ts';
import { digestOf, type WaitingSegment } from './waiting.ts';

/**
 * Returns the labels of a segment, the masked ones in each form of predictions. A label whose file was deleted or written again keeps
 * the form that it has.
 */
export async function formsOfSegment(
  { name, labels }: WaitingSegment,
  { storage, environment }: Pick<StepDependencies, 'storage' | 'environment'>,
): Promise<Label[]> {
  const masked = new Set(labels.flatMap(({ key, line }) => (key === undefined ? [] : [line])));
  if (masked.size === 0 || environment.redaction === undefined) return labels;
  const report = await storage.getJson<LabelFileReport>(environment.WORK_BUCKET, truthKeys.file(digestOf(name)));
  const facts = report && (await storage.head(report.bucket, report.key));
  if (facts === undefined || facts.etag !== report?.etag) return labels;
  const forms: Label[] = labels.filter(({ line }) => !masked.has(line));
  const file = { name: facts.key, timeMs: facts.lastModifiedMs };
  for await (const item of readLabels(await storage.read(facts), file, environment.GROUND_TRUTH)) {
    if ('id' in item && masked.has(item.line)) forms.push(...labelForms(item, environment));
  }
  return forms;
}
