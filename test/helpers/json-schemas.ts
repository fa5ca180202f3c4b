/**
 * Prints the JSON schema of each command's `--json`, made from its type `Output`: the comments of the types become
 * descriptions. A program of its own, since jest cannot load TypeScript's checker.
 */
import { API, type Checker, type Symbol as Named, SymbolFlags, type Type, TypeFlags } from 'typescript/unstable/sync';
import { COMMANDS } from '../../bin/commands.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';

interface Schema {
  [keyword: string]: unknown;
  type?: string | string[];
  properties?: Record<string, Schema>;
}

/** Types do not contain themselves. */
const MAX_DEPTH = 30;

export class SchemaMaker {
  readonly #checker: Checker;

  constructor(checker: Checker) {
    this.#checker = checker;
  }

  of(type: Type, where: string, depth = 0): Schema {
    if (depth > MAX_DEPTH) throw new Error(`${where}: the type contains itself`);
    if (type.flags & TypeFlags.AnyOrUnknown) return {};
    if (type.flags & TypeFlags.String) return { type: 'string' };
    if (type.flags & TypeFlags.Number) return { type: 'number' };
    if (type.flags & TypeFlags.Boolean) return { type: 'boolean' };
    if (type.flags & TypeFlags.Null) return { type: 'null' };
    if (type.isLiteralType()) return { type: typeof type.value, const: type.value };
    if (type.isUnionType()) return this.#union(type.getTypes(), where, depth);
    if (this.#checker.isTupleType(type)) {
      const prefixItems = this.#checker.getTypeArguments(type as never).map((each) => this.of(each, where, depth + 1));
      return { type: 'array', prefixItems, minItems: prefixItems.length, maxItems: prefixItems.length };
    }
    if (this.#checker.isArrayType(type)) {
      const [item] = this.#checker.getTypeArguments(type as never);
      return { type: 'array', items: item ? this.of(item, `${where}[]`, depth + 1) : {} };
    }
    if (type.isObjectType() || type.isIntersectionType()) return this.#object(type, where, depth);
    throw new Error(`${where}: ${this.#checker.typeToString(type)} cannot be JSON`);
  }

  #union(all: readonly Type[], where: string, depth: number): Schema {
    const types = all.filter(({ flags }) => !(flags & TypeFlags.Undefined));
    const literals = types.flatMap((type) => (type.isLiteralType() ? [type.value as string | number | boolean] : []));
    const others = types
      .filter(({ flags }) => !(flags & TypeFlags.Literal))
      .map((type) => this.of(type, where, depth + 1));
    const named = [...Map.groupBy(literals, (value) => typeof value)].map(([kind, values]): Schema => {
      if (kind === 'boolean' && values.length === 2) return { type: 'boolean' };
      return values.length === 1 ? { type: kind, const: values[0] } : { type: kind, enum: values.toSorted() };
    });
    const options = [...named, ...others];
    const [only] = options;
    if (only !== undefined && options.length === 1) return only;
    // In any order that the checker may have them in.
    const sorted = options.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
    const isPlain = sorted.every((option) => Object.keys(option).join() === 'type');
    return isPlain ? { type: sorted.map(({ type }) => type as string) } : { anyOf: sorted };
  }

  #object(type: Type, where: string, depth: number): Schema {
    const properties: Record<string, Schema> = {};
    const required: string[] = [];
    for (const property of this.#checker.getPropertiesOfType(type)) {
      const value = this.#checker.getTypeOfSymbol(property);
      if (value === undefined || value.flags & TypeFlags.Undefined || property.flags & SymbolFlags.Method) continue;
      const schema = this.of(value, `${where}.${property.name}`, depth + 1);
      properties[property.name] = this.described(schema, property);
      const may = value.isUnionType() && value.getTypes().some(({ flags }) => flags & TypeFlags.Undefined);
      if (!(property.flags & SymbolFlags.Optional || may)) required.push(property.name);
    }
    const [index] = this.#checker.getIndexInfosOfType(type);
    return {
      type: 'object',
      ...(Object.keys(properties).length > 0 ? { properties } : {}),
      ...(required.length > 0 ? { required } : {}),
      ...(index ? { additionalProperties: this.of(index.valueType, `${where}{}`, depth + 1) } : {}),
    };
  }

  /** With the comment of the property. `@nullable`: JSON has `null` for numbers that it does not know. */
  described(schema: Schema, property: Named): Schema {
    const text = this.#checker.getDocumentationCommentOfSymbol(property).replaceAll(/\s+/g, ' ').replaceAll('`', '');
    const tags = this.#checker.getJsDocTagsOfSymbol(property).map(({ name }) => name);
    const typed = tags.includes('nullable') ? { ...schema, type: [schema.type as string, 'null'] } : schema;
    return text === '' ? typed : { ...typed, description: text };
  }
}

const api = new API({ cwd: packagePath() });
const [project] = api.updateSnapshot({ openProject: packagePath('tsconfig.json') }).getProjects();
if (project === undefined) throw new Error('There is no project');
const { checker, program } = project;
const maker = new SchemaMaker(checker);

/** Returns the schema of an exported type of a module. Returns nothing if the module has no such type. */
function schemaOf(file: string, type: string): object | undefined {
  const source = program.getSourceFile(packagePath('bin', file));
  const module = source && checker.getSymbolAtLocation(source);
  const exported = module && checker.getExportsOfModule(module).find(({ name }) => name === type);
  return exported && maker.described(maker.of(checker.getDeclaredTypeOfSymbol(exported), file), exported);
}

const dialect = 'https://json-schema.org/draft/2020-12/schema';
const made = [
  ['error', schemaOf('program.ts', 'ErrorOutput')] as const,
  ...Object.keys(COMMANDS).map((name) => [name, schemaOf(`commands/${name}.ts`, 'Output')] as const),
].flatMap(([name, schema]) => {
  const title = `inference-monitor ${name === 'error' ? '…' : name} --json`;
  return schema === undefined ? [] : [[name, { title, $schema: dialect, ...schema }]];
});
api.close();
process.stdout.write(JSON.stringify(Object.fromEntries(made)));
