/** MLflow's evaluation datasets (3.4 and newer): inputs for evaluating a model, and expectations of its replies. */
import * as z from 'zod';
import { PermanentError } from '../core/errors/errors.ts';
import { MlflowRefusedError } from './errors.ts';
import type { MlflowRest } from './rest.ts';

export interface DatasetRecord {
  inputs: Record<string, unknown>;
  outputs?: Record<string, unknown>;
  expectations?: Record<string, unknown>;
  tags: Record<string, string>;
  source: { source_type: 'TRACE'; source_data: { trace_id: string } };
}

const datasetReply = z.object({ dataset: z.object({ dataset_id: z.string() }) });
const searchReply = z.object({ datasets: z.array(z.object({ dataset_id: z.string(), name: z.string() })).default([]) });
const upsertReply = z.object({ inserted_count: z.number().default(0), updated_count: z.number().default(0) });

/** MLflow's filter has no escape for a quote. */
const FORBIDDEN = /['"`\\]/;

type Rest = Pick<MlflowRest, 'repeat'>;

const post = (action: string, json: object) =>
  ({ method: 'POST', path: `/api/3.0/mlflow/datasets/${action}`, json }) as const;

/**
 * Finds the dataset of this name in the experiment, or creates it.
 *
 * @returns its id
 * @throws PermanentError `MlflowDatasetsMissing` if the server has no evaluation datasets, `InvalidName`
 */
export async function resolveDataset(rest: Rest, experimentId: string, name: string): Promise<string> {
  if (name.trim() === '' || FORBIDDEN.test(name)) {
    const facts = { got: name, expected: 'a name without quotes' };
    throw new PermanentError('InvalidName', 'A dataset cannot have this name', facts);
  }
  try {
    const json = { experiment_ids: [experimentId], filter_string: `name = '${name}'`, max_results: 1 };
    const found = await rest.repeat(post('search', json), searchReply);
    const [first] = found.datasets;
    if (first !== undefined) return first.dataset_id;
    const create = { name, experiment_ids: [experimentId] };
    return (await rest.repeat(post('create', create), datasetReply)).dataset.dataset_id;
  } catch (error) {
    if (!(error instanceof MlflowRefusedError) || !error.routeMissing) throw error;
    const facts = { got: 'no route for them', expected: 'MLflow 3.4 or newer, or no --name: the file alone' };
    throw new PermanentError('MlflowDatasetsMissing', 'This MLflow server has no evaluation datasets', facts, error);
  }
}

/**
 * Writes records. A record with the inputs of an existing record changes that record, so a repeated call adds nothing.
 */
export async function fillDataset(rest: Rest, id: string, records: readonly DatasetRecord[]) {
  const call = post(`${encodeURIComponent(id)}/records`, { records: JSON.stringify(records) });
  const reply = await rest.repeat(call, upsertReply);
  return { inserted: reply.inserted_count, updated: reply.updated_count };
}
