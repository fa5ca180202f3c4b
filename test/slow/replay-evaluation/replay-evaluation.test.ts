/**
 * Judging a replay and logging it to MLflow when something ends halfway: the judge, MLflow, the time, the money, or a person's
 * patience. The functions run in this process, everything else is a real server, which the suites share.
 */
import './end-run.ts';
import './command.ts';
