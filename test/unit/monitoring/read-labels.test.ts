/** The daily reading of people's labels when MLflow does not let it. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { logger } from '../../../src/core/process/logging.ts';
import { mlflowOf } from '../../../src/mlflow/connect.ts';
import { readLabelsDaily } from '../../../src/monitoring/read-labels.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';

test('a reading that fails is logged, fails nothing, and waits for the next day', async () => {
  let asked = 0;
  const server = createServer((_, reply) => {
    asked += 1;
    reply.writeHead(403).end();
  });
  await new Promise<void>((done) => void server.listen(0, done));
  const MLFLOW_TRACKING_URI = `http://localhost:${(server.address() as AddressInfo).port}`;
  const warned = jest.spyOn(logger, 'warn').mockImplementation();
  const work = { storage: new MemoryStorage().storage, workBucket: 'work' };
  const read = (day: string) =>
    readLabelsDaily(work, {
      connect: async () => mlflowOf({ MLFLOW_TRACKING_URI }),
      ...{
        settings: { MLFLOW_EXPERIMENT_NAME: 'e' },
        scorers: [],
        nowMs: Date.parse(`${day}T09:00:00Z`),
        hasTime: () => true,
      },
    });
  const askedBy = async (day: string): Promise<number> => {
    const before = asked;
    await read(day);
    return asked - before;
  };
  try {
    expect(await askedBy('2026-11-20')).toBeGreaterThan(0);
    expect(warned).toHaveBeenCalledWith(expect.stringContaining('A run of tomorrow'), { error: expect.any(Error) });
    expect(await askedBy('2026-11-20')).toBe(0);
    expect(await askedBy('2026-11-21')).toBeGreaterThan(0);
  } finally {
    warned.mockRestore();
    server.close();
    server.closeAllConnections();
  }
});
