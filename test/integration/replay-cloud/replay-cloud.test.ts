/** Cloud replays: the functions run in this process, with an emulated S3 and a real HTTP server as the target. */
import './sending.ts';
import './disk.ts';
