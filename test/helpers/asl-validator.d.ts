/** Declares the types that the package does not provide for its `main` file. */
declare module 'asl-validator' {
  interface Result {
    isValid: boolean;
    errors: { 'Error code': string; Message: string }[];
  }
  export default function validate(definition: object): Result;
}
