/** Files that AWS writes beside captures, or in their place. Their paths name them. */

const OTHERS: readonly (readonly [RegExp, string])[] = [
  [
    /(?:^|\/)[0-9a-f]{8,64}\/(?:alb|pod)(?:\/|$)/,
    'Data Capture of the endpoint, which HyperPod writes below sme/: alb/ has logs of the load balancer, pod/ has records of the container',
  ],
  [
    /(?:^|\/)(?:in|out)put\/\d{4}\/\d\d\/\d\d\/\d\d\/[^/]{1,200}\.json$/,
    'Data Capture of an endpoint: that of batch transform has manifests, which name input and output files and have no requests',
  ],
  [
    /(?:^|\/)BedrockModelInvocationLogs(?:\/|$)/,
    "Data Capture of an endpoint: Bedrock's logs of model invocations have another form",
  ],
];

/** Returns what is expected in place of a file that has no captures by its path; `undefined` if it may have some. */
export const insteadOf = (path: string): string | undefined =>
  OTHERS.find(([form]) => form.test(path.replaceAll('\\', '/')))?.[1];
