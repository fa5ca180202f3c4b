/**
 * Judging a cloud replay and logging it to MLflow, and how replays end that are stopped, or whose judge or MLflow server
 * fails. The functions run in this process, everything else is a real server, which the suites share.
 */
import './evaluation.ts';
import './assessments.ts';
import './end-run.ts';
import './command.ts';
