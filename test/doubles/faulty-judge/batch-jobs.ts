/** Batch inference jobs that can be refused, fail, or fail at some records. */
import { type AnswerConverse, BatchJobs } from '../../../local/stand-in-judge/batch-jobs.ts';
import { type HttpAnswer, serviceError } from '../../../local/stand-in-judge/http-answer.ts';
import type { AnswerFault } from './behavior.ts';

interface BatchBehavior {
  /** Milliseconds until a job ends. Default 0. */
  delayMs?: number;
  /** Every job is refused with this message. */
  refuseWith?: string;
  /** Every job fails with this message. */
  failWith?: string;
  /** Every n-th record gets an error instead of an answer. */
  errorEvery?: number;
  /** Every n-th record's answer has this fault. */
  fault?: { kind: AnswerFault; every: number };
}

/** Answers one Converse body, optionally with a fault. */
type AnswerWithFault = (...call: [...Parameters<AnswerConverse>, fault: AnswerFault | undefined]) => HttpAnswer;

export class FaultyBatchJobs extends BatchJobs {
  /** Records answered so far, over all jobs. */
  records = 0;
  #behavior: BatchBehavior = {};

  constructor(answer: AnswerWithFault) {
    super((modelId, body) => {
      const { errorEvery, fault } = this.#behavior;
      if (errorEvery !== undefined && this.records % errorEvery === 0) {
        return serviceError(400, 'ValidationException', 'The record failed.');
      }
      return answer(modelId, body, fault && this.records % fault.every === 0 ? fault.kind : undefined);
    });
  }

  set behavior(behavior: BatchBehavior) {
    this.#behavior = behavior;
    this.delayMs = behavior.delayMs ?? 0;
  }

  override create(text: string): HttpAnswer {
    const { refuseWith } = this.#behavior;
    return refuseWith === undefined ? super.create(text) : serviceError(400, 'ValidationException', refuseWith);
  }

  protected override async process(...job: Parameters<BatchJobs['process']>): ReturnType<BatchJobs['process']> {
    if (this.#behavior.failWith !== undefined) throw new Error(this.#behavior.failWith);
    return super.process(...job);
  }

  protected override record(...line: Parameters<BatchJobs['record']>): string {
    this.records += 1;
    return super.record(...line);
  }
}
