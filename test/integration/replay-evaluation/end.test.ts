/** How replays end that are stopped, or whose judge or MLflow server fails, in the cloud and on the command line. */
import './end-run.ts';
import './command.ts';
