/** The setting `GROUND_TRUTH`: how predictions are kept for labels that come later, and how they are compared. */
import * as z from 'zod';

/** Each column costs its values for every prediction. */
const MAX_GROUPS = 5;
const MAX_CLASSES = 100;
const name = z.string().min(1).max(256);

export const groundTruthSchema = z.strictObject({
  /** Number of days that predictions wait for their labels, and labels for their predictions. 0: nothing is kept. */
  days: z.number().int().min(0).max(400).default(30),
  /** Kind of the model's predictions. Default: derived from the labels. */
  kind: z.enum(['classes', 'numbers', 'texts']).optional(),
  /**
   * The field with the prediction in a row's reply, with dots for nested fields. Default: a field with a usual name.
   */
  prediction: name.optional(),
  /**
   * The field with the probability of the positive class, or with the probabilities of all classes. Default: a field
   * with a usual name.
   */
  probability: name.optional(),
  /** The classes of a list of probabilities, in its order. Default: `0`, `1`, … */
  classes: z.array(name).min(2).max(MAX_CLASSES).optional(),
  /** The class that precision, recall, F1 and AUC of a model with two classes are about. */
  positive: name.default('1'),
  /** Minimum probability for predicting the positive class. Above 1, probabilities are percentages. */
  threshold: z.number().min(0).max(100).default(0.5),
  /** Columns by which selection rate and true positive rate are compared, such as `["age_group"]`. */
  groups: z.array(name).max(MAX_GROUPS).default([]),
  /** Writes the metrics of Model Monitor too, with this monitoring schedule as their dimension. */
  modelMonitorSchedule: name.optional(),
});

export type GroundTruthSettings = z.infer<typeof groundTruthSchema>;
