/** The tag of a trace that was picked to be labelled: it keeps how likely that was, so that estimates stay unbiased. */
import * as z from 'zod';

/** What the tag says, as JSON. People can edit tags. */
const pickSchema = z.object({
  /** The part of its stratum that is picked by now, above 0 and at most 1. */
  probability: z.number().gt(0).lte(1),
  /** Traces that were alike before they were labelled. */
  stratum: z.string(),
  /** ISO 8601. */
  picked: z.string(),
});

export type LabelPick = z.infer<typeof pickSchema>;

export const labelTag = (scorer: string): string => `label_${scorer}`;

/** Returns MLflow's filter for the traces that were picked. */
export const pickedFilter = (scorer: string): string => `tag.\`${labelTag(scorer)}\` LIKE '%probability%'`;

/** Returns how the trace was picked; `undefined` if it was not, or if the tag was changed. */
export function pickOf(tags: Readonly<Record<string, string>>, scorer: string): LabelPick | undefined {
  try {
    return pickSchema.safeParse(JSON.parse(tags[labelTag(scorer)] ?? '')).data;
  } catch {
    return undefined;
  }
}

/** A labelled trace, as far as its weight depends on it. */
export interface PickedLabel {
  pick: LabelPick | undefined;
  /** The judge's verdict. */
  verdict: string;
  /** Captures that it stands for among all, since not all are judged. */
  judgedWeight: number;
}

/**
 * Returns the weight of each label: how many captures it stands for.
 *
 * A picked trace stands for 1 ÷ its probability others. That of its stratum may have grown by later picks, so the largest one
 * of the labels counts. Labels of traces that nobody picked count like an average picked one of the same verdict. Then the
 * weights of each verdict are brought to the captures with it, because those are counted.
 *
 * @param judged captures by verdict, each with its weight
 */
export function labelWeights(labels: readonly PickedLabel[], judged: ReadonlyMap<string, number>): number[] {
  if (labels.every(({ pick }) => pick === undefined)) return labels.map(({ judgedWeight }) => judgedWeight);
  const chances = new Map<string, number>();
  for (const { pick } of labels) {
    if (pick !== undefined) chances.set(pick.stratum, Math.max(pick.probability, chances.get(pick.stratum) ?? 0));
  }
  const weights: number[] = labels.map(() => 0);
  for (const [verdict, members] of Map.groupBy(labels.keys(), (at) => labels[at]?.verdict ?? '')) {
    const own = members.map((at) => labels[at] as PickedLabel);
    const picked = own.flatMap(({ pick }) => (pick === undefined ? [] : [1 / (chances.get(pick.stratum) ?? 1)]));
    const average = picked.length === 0 ? 1 : picked.reduce((sum, weight) => sum + weight, 0) / picked.length;
    const raw = own.map(
      ({ pick, judgedWeight }) => (pick === undefined ? average : 1 / (chances.get(pick.stratum) ?? 1)) * judgedWeight,
    );
    const total = raw.reduce((sum, weight) => sum + weight, 0);
    const scale = (judged.get(verdict) ?? total) / total;
    members.forEach((at, index) => {
      weights[at] = (raw[index] ?? 0) * scale;
    });
  }
  return weights;
}
