/** The limits over a table in memory. */
import { MemoryTable } from '../../doubles/memory-table.ts';
import { limitsSuite } from '../../helpers/limits-suite.ts';

limitsSuite(async () => {
  const table = new MemoryTable();
  const loseReply = (): void => {
    table.lostReplies += 1;
  };
  return { client: table.client, name: 't', requests: () => table.requests, loseReply };
});
