/** An endpoint of SageMaker, as its service describes it. */

/** A variant as an endpoint or its configuration has it, with counts and more by AWS's names. */
export type Variant = { VariantName: string; [member: string]: unknown };

export interface Variants {
  ProductionVariants?: Variant[] | undefined;
  /** Variants that get a copy of the requests, and whose replies no user sees. */
  ShadowProductionVariants?: Variant[] | undefined;
}

/** As DescribeEndpoint tells it. */
export interface Endpoint extends Variants {
  EndpointName: string;
  EndpointArn: string;
  EndpointConfigName?: string;
  EndpointStatus: string;
  /** Epoch seconds. */
  LastModifiedTime: number;
  FailureReason?: string;
  /** Absent: nothing is captured. */
  DataCaptureConfig?: {
    EnableCapture: boolean;
    CaptureStatus: 'Started' | 'Stopped';
    CurrentSamplingPercentage: number;
    DestinationS3Uri: string;
    /** May be empty. */
    KmsKeyId?: string;
  };
}
