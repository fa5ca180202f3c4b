import { linesOf } from '../../tools/lines.ts';

it.each([
  ['', 0],
  ['a();\n\n  \nb();\n', 2],
  ['// note\na(); // note\n/* note */\n/* note */ b();\n/**\n * note\n */ c();', 3],
  [`a('// text', "/* text");\n// it's\nb('\\'// text');`, 2],
  ['a(`// text\n\n/* text\n`);\n// note', 3],
  [`a(\`\${b({ c: \`// text \${d} /*\` })} // text\`);\n// \`note`, 1],
  [`a(\`\${\n// note\nb}\n// text\`);`, 3],
  ['a(/[/*]\'/, /\\/*"/g);\n// note\nreturn /`/;\n/* note */', 2],
  ['a = b / 2 + c() / `d`;\n/* note\n*/ e[0] / 1; // 1 / 2', 2],
])('%j has %i lines of code', (program, lines) => {
  expect(linesOf(program)).toBe(lines);
});
