/**
 * Adds to Node 20 what newer ones have and the shared sources use: parts of ECMAScript that tsconfig.json names, JSON with
 * exact numbers, and `URL.parse`.
 */
import 'core-js/actual/array-buffer/transfer.js';
import 'core-js/actual/array/from-async.js';
import 'core-js/actual/json/is-raw-json.js';
import 'core-js/actual/json/parse.js';
import 'core-js/actual/json/raw-json.js';
import 'core-js/actual/json/stringify.js';
import 'core-js/actual/map/group-by.js';
import 'core-js/actual/promise/with-resolvers.js';
import 'core-js/actual/url/parse.js';
