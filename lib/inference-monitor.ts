/** The construct for another CDK app: the project's own stack as a part of that app. */
import { Annotations, type Duration, Names, Stack, Token } from 'aws-cdk-lib';
import type { Metric } from 'aws-cdk-lib/aws-cloudwatch';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import type { Bucket } from 'aws-cdk-lib/aws-s3';
import type { Topic } from 'aws-cdk-lib/aws-sns';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import type { LabelMetric, QualityMetric, RunMetric, ThrottleMetric } from '../src/core/contract/metric-names.ts';
import { MAX_PREFIX } from '../src/core/settings/schema.ts';
import { PERIOD, runMetric } from './metrics.ts';
import { monitor } from './monitor.ts';
import { type InferenceMonitorProps, settingsOfProps } from './monitor-props.ts';

export type { InferenceMonitorProps };

/**
 * A monitor for one endpoint, as a construct of any CDK stack.
 *
 * @example
 *     new InferenceMonitor(this, 'Monitor', { stackPrefix: 'prod', endpointName, captureBucket, mlflow, mlflowArtifactBucket });
 */
export class InferenceMonitor extends Construct {
  /** Suffix of the names of resources, by which the command line finds the monitor. Unique in the account. */
  readonly stackPrefix: string;
  /** Starts a run over captures. The rule starts it for new captures without any input. */
  readonly stateMachine: StateMachine;
  /** Starts a replay of captured requests. */
  readonly replayStateMachine: StateMachine;
  /** Joins true answers to predictions. Start it with a label file, or set `groundTruthS3Prefix`. */
  readonly groundTruthStateMachine: StateMachine;
  /** The topic of all alarms, and of messages about quality. */
  readonly alarmTopic: Topic;
  /** Manifests, receipts, summaries and quarantined lines. It outlives the stack. */
  readonly workBucket: Bucket;

  /** @throws Error `InvalidProps` that names every prop that is wrong, missing or unknown */
  constructor(scope: Construct, id: string, props: InferenceMonitorProps) {
    super(scope, id);
    this.stackPrefix = props.stackPrefix ?? Names.uniqueResourceName(this, { maxLength: MAX_PREFIX, separator: '-' });
    const { region } = Stack.of(this);
    const { settings, warnings } = settingsOfProps(
      { ...props, stackPrefix: this.stackPrefix },
      { region: Token.isUnresolved(region) ? undefined : region, where: this.node.path },
    );
    for (const [index, text] of warnings.entries()) Annotations.of(this).addWarningV2(`Props${index + 1}`, text);
    const made = monitor(new Construct(this, 'Default'), settings);
    this.stateMachine = made.stateMachine;
    this.replayStateMachine = made.replayStateMachine;
    this.groundTruthStateMachine = made.groundTruthStateMachine;
    this.alarmTopic = made.alarmTopic;
    this.workBucket = made.workBucket;
  }

  /** A metric of the runs or of the labels, as a sum per period (default: 5 minutes). */
  metric(name: RunMetric | LabelMetric | ThrottleMetric, period: Duration = PERIOD): Metric {
    return runMetric(this.stackPrefix, name, period);
  }

  /**
   * A metric of quality, as a sum per period (default: 5 minutes).
   *
   * @param dimensions `Scorer` and `Variant` of Judged and Passed, `Variant` of ErrorReplies and VerdictAge, `Objective` of QualityMissed
   */
  qualityMetric(name: QualityMetric, dimensions: Record<string, string>, period: Duration = PERIOD): Metric {
    return runMetric(this.stackPrefix, name, period, dimensions);
  }

  /** Allows starting runs: a backfill, a retry, a re-evaluation. */
  grantStart(grantee: IGrantable): Grant {
    return this.stateMachine.grantStartExecution(grantee);
  }
}
