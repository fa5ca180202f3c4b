/**
 * AWS's models of its services, as botocore publishes them: operations, the shapes of their inputs, and what the values may
 * be. They are read as files: botocore itself does not check patterns, enums or most lengths.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

/** A use of a shape: as a member of a structure, an item of a list, or a key or value of a map. */
export interface ShapeUse {
  shape: string;
  locationName?: string;
  location?: 'uri' | 'querystring' | 'header' | 'headers';
  flattened?: boolean;
  /** The SDK fills it in. */
  idempotencyToken?: boolean;
}

export interface Shape {
  type: string;
  members?: Record<string, ShapeUse>;
  required?: string[];
  payload?: string;
  union?: boolean;
  document?: boolean;
  flattened?: boolean;
  member?: ShapeUse;
  key?: ShapeUse;
  value?: ShapeUse;
  enum?: string[];
  min?: number;
  max?: number;
  pattern?: string;
}

export interface Operation {
  name: string;
  http: { method: string; requestUri: string };
  input?: ShapeUse;
  deprecated?: boolean;
}

export interface ServiceModel {
  name: string;
  metadata: { protocol: string; targetPrefix?: string };
  operations: Record<string, Operation>;
  shapes: Record<string, Shape>;
}

/** Folders of the models by the name that requests are signed for, where they differ. */
const FOLDERS: Record<string, string[]> = {
  bedrock: ['bedrock-runtime', 'bedrock'],
  monitoring: ['cloudwatch'],
  sagemaker: ['sagemaker-runtime', 'sagemaker'],
  servicequotas: ['service-quotas'],
  states: ['stepfunctions'],
};

/** Services by their names in a state machine's resources, where they differ from botocore's. */
export const STATES_SERVICES: Record<string, string> = { sfn: 'stepfunctions', states: 'stepfunctions' };

export class ServiceModels {
  readonly #data: string;
  readonly #models = new Map<string, ServiceModel | undefined>();

  /** @param environment the folder of a Python environment with botocore */
  constructor(environment: string) {
    const [version = ''] = readdirSync(join(environment, 'lib')).filter((name) => name.startsWith('python'));
    this.#data = join(environment, 'lib', version, 'site-packages', 'botocore', 'data');
  }

  /** Returns the models of the services that sign with this name. Empty: there is none. */
  signedAs(name: string): ServiceModel[] {
    return (FOLDERS[name] ?? [name]).flatMap((folder) => this.model(folder) ?? []);
  }

  model(folder: string): ServiceModel | undefined {
    if (!this.#models.has(folder)) this.#models.set(folder, this.#read(folder));
    return this.#models.get(folder);
  }

  #read(name: string): ServiceModel | undefined {
    if (!/^[\w-]+$/.test(name) || !readdirSync(this.#data).includes(name)) return undefined;
    const folder = join(this.#data, name);
    const [version = ''] = readdirSync(folder).sort().slice(-1);
    const file = join(folder, version, 'service-2.json.gz');
    const model = JSON.parse(gunzipSync(readFileSync(file)).toString('utf8'), withoutDocumentation) as ServiceModel;
    return { ...model, name };
  }
}

/** A JSON reviver: texts for people are most of a model, and every jest worker holds several. */
function withoutDocumentation(key: string, value: unknown): unknown {
  return key === 'documentation' && typeof value === 'string' ? undefined : value;
}
