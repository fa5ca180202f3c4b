/**
 * Figures in the format of SageMaker Model Monitor's jobs for model quality, for its former users. The names come from
 * https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-model-quality-metrics.html. The curves and the figures
 * of a constant classifier are left out, because AWS does not document how they are computed.
 */
import { Metrics, MetricUnit } from '@aws-lambda-powertools/metrics';
import { Z_95 } from '../../core/statistics/distributions.ts';
import type { TrueObjective } from '../../quality/true-objectives.ts';
import type { Figure, FiguresOfClass, Kind, TruthGroup } from './figures.ts';

/** A metric. Model Monitor gives its standard deviation from 200 samples on, and `NaN` below. */
interface ModelMetric {
  value: number;
  standard_deviation: number | 'NaN';
}

const FEWEST_FOR_DEVIATION = 200;
const NAMESPACE = 'aws/sagemaker/Endpoints/model-metrics';

type Section = 'binary_classification' | 'multiclass_classification' | 'regression';

/** @returns `undefined` for texts, which Model Monitor does not measure, and if no row could be compared */
export function modelMonitorFiles(kind: Kind, figures: TruthGroup, objectives: readonly TrueObjective[]) {
  const { classes, compared } = figures;
  if (kind === 'texts' || compared === 0 || (kind === 'classes' && classes === undefined)) return undefined;
  const isBinary = typeof classes?.positive === 'string';
  const section: Section =
    kind === 'numbers' ? 'regression' : isBinary ? 'binary_classification' : 'multiclass_classification';
  const found = Object.entries(kind === 'numbers' ? ofNumbers(figures) : ofClasses(figures));
  const metricsOf = ([name, figure]: [string, Figure]): [string, ModelMetric][] =>
    figure.value === null ? [] : [[name, metricOf(figure, figure.value, compared)]];
  const metrics = Object.fromEntries(found.flatMap(metricsOf));
  const confusion = classes === undefined ? {} : { confusion_matrix: confusionMatrix(classes) };
  const constraints = constraintsOf(objectives, section);
  return {
    /** Metrics by name, without the confusion matrix. */
    metrics,
    /** Files by name. */
    files: {
      'statistics.json': {
        version: 0,
        dataset: { item_count: compared },
        [`${section}_metrics`]: { ...confusion, ...metrics },
      },
      'constraints.json': { version: 0, [`${section}_constraints`]: constraints },
      'constraint_violations.json': { violations: violationsOf(metrics, constraints) },
    },
  };
}

function metricOf({ low, high }: Figure, value: number, rows: number): ModelMetric {
  const isKnown = low !== null && high !== null && rows >= FEWEST_FOR_DEVIATION;
  return { value, standard_deviation: isKnown ? Math.abs(high - low) / (2 * Z_95) : 'NaN' };
}

/** Applies a function to a figure and the ends of its interval, which it may exchange. */
function mapped({ value, low, high }: Figure, change: (x: number) => number): Figure {
  const of = (x: number | null): number | null => (x === null ? null : change(x));
  return { value: of(value), low: of(low), high: of(high) };
}

function ofNumbers({ measures }: TruthGroup): Record<string, Figure> {
  const { mae, rmse, r2 } = measures as Record<'mae' | 'rmse' | 'r2', Figure>;
  return { mae, mse: mapped(rmse, (x) => x * x), rmse, r2 };
}

const exact = (value: number | null): Figure => ({ value, low: null, high: null });

/** Returns Fβ of a class. Returns `null` if no row has the class. */
function fBeta(beta: number, { support, predicted, recall }: FiguresOfClass): number | null {
  const all = beta * beta * support + predicted;
  return all === 0 ? null : ((1 + beta * beta) * support * (recall.value ?? 0)) / all;
}

function ofClasses({ measures, classes }: TruthGroup): Record<string, Figure> {
  if (classes === undefined) return {};
  const { accuracy, auc } = measures as Record<'accuracy' | 'auc', Figure>;
  const { positive, each, weighted } = classes;
  if (positive === null) {
    const rows = each.reduce((sum, { support }) => sum + support, 0);
    const mean = (beta: number): Figure =>
      exact(each.reduce((sum, one) => sum + (one.support / rows) * (fBeta(beta, one) ?? 0), 0));
    return {
      accuracy,
      weighted_recall: weighted.recall,
      weighted_precision: weighted.precision,
      weighted_f0_5: mean(0.5),
      weighted_f1: weighted.f1,
      weighted_f2: mean(2),
    };
  }
  const own = each.find(({ class: name }) => name === positive) as FiguresOfClass;
  const other = each.find(({ class: name }) => name !== positive)?.recall ?? exact(null);
  const rest = (x: number): number => 1 - x;
  return {
    recall: own.recall,
    precision: own.precision,
    accuracy,
    true_positive_rate: own.recall,
    true_negative_rate: other,
    false_positive_rate: mapped(other, rest),
    false_negative_rate: mapped(own.recall, rest),
    auc,
    f0_5: exact(fBeta(0.5, own)),
    f1: own.f1,
    f2: exact(fBeta(2, own)),
  };
}

/** Returns the counts by label, then by prediction. */
function confusionMatrix({ each, confusion }: NonNullable<TruthGroup['classes']>) {
  const names = each.map(({ class: name }) => name);
  const none = () => Object.fromEntries(names.map((name) => [name, 0]));
  const rows = new Map(names.map((name) => [name, none()]));
  for (const { label, predicted, count } of confusion) Object.assign(rows.get(label) ?? {}, { [predicted]: count });
  return Object.fromEntries(rows);
}

/** Leaves out objectives for one variant and for figures that Model Monitor does not have. */
const CONSTRAINED: Record<Section, readonly string[]> = {
  binary_classification: ['accuracy', 'precision', 'recall', 'f1', 'auc'],
  multiclass_classification: ['accuracy'],
  regression: ['mae', 'rmse', 'r2'],
};

function constraintsOf(objectives: readonly TrueObjective[], section: Section) {
  const known = objectives.filter((one) => one.variant === undefined && CONSTRAINED[section].includes(one.measure));
  const constraintOf = ({ bound }: TrueObjective) =>
    'atLeast' in bound
      ? ({ threshold: bound.atLeast, comparison_operator: 'LessThanThreshold' } as const)
      : ({ threshold: bound.atMost, comparison_operator: 'GreaterThanThreshold' } as const);
  return Object.fromEntries(known.map((objective) => [objective.measure, constraintOf(objective)]));
}

/** Finds violations. As in Model Monitor, the figure itself is compared, whatever its interval. */
function violationsOf(metrics: Record<string, ModelMetric>, constraints: ReturnType<typeof constraintsOf>): object[] {
  return Object.entries(constraints).flatMap(([name, { threshold, comparison_operator }]) => {
    const metric = metrics[name];
    if (metric === undefined) return [];
    const { value, standard_deviation } = metric;
    if (comparison_operator === 'LessThanThreshold' ? value >= threshold : value <= threshold) return [];
    const description = `Metric ${name} with ${value} +/- ${standard_deviation} was ${comparison_operator} '${threshold}'`;
    return [{ constraint_check_type: comparison_operator, description, metric_name: name }];
  });
}

/** Publishes the metrics to CloudWatch under Model Monitor's names, by endpoint and monitoring schedule. */
export function publishModelMetrics(metrics: Record<string, ModelMetric>, endpoint: string, schedule: string): void {
  const all = new Metrics({ namespace: NAMESPACE });
  all.clearDefaultDimensions();
  all.setDefaultDimensions({ Endpoint: endpoint, MonitoringSchedule: schedule });
  for (const [name, { value }] of Object.entries(metrics)) all.addMetric(name, MetricUnit.NoUnit, value);
  all.publishStoredMetrics();
}
