/** The package has no types of its own where its `main` points. */
declare module 'asl-validator' {
  interface Result {
    isValid: boolean;
    errors: { 'Error code': string; Message: string }[];
  }
  export default function validate(definition: object): Result;
}
