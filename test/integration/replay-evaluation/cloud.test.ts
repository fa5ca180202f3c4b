/** Judging a cloud replay and logging it to MLflow: the functions run in this process, everything else is a real server. */
import './evaluation.ts';
import './assessments.ts';
