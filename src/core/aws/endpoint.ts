/** An endpoint of SageMaker, as its service describes it. */

/** A variant of an endpoint or its configuration, with further members under AWS's names. */
export type Variant = { VariantName: string; [member: string]: unknown };

export interface Variants {
  ProductionVariants?: Variant[] | undefined;
  /** Shadow variants: they get a copy of the requests, and users do not see their replies. */
  ShadowProductionVariants?: Variant[] | undefined;
}

/** An endpoint as returned by DescribeEndpoint. */
export interface Endpoint extends Variants {
  EndpointName: string;
  EndpointArn: string;
  EndpointConfigName?: string;
  EndpointStatus: string;
  /** Epoch seconds. */
  LastModifiedTime: number;
  FailureReason?: string;
  /** Absent if Data Capture is off. */
  DataCaptureConfig?: {
    EnableCapture: boolean;
    CaptureStatus: 'Started' | 'Stopped';
    CurrentSamplingPercentage: number;
    DestinationS3Uri: string;
    /** May be empty. */
    KmsKeyId?: string;
  };
}
