/**
 * CPU of the search for secrets in 1 MiB of hostile text, per rule: `node bench/secrets.ts [folder of another version]`. Growth is the time
 * of 1 MiB divided by that of 256 KiB: 4 is linear.
 */
import { resolve } from 'node:path'

const folder = resolve(process.argv[2] ?? '.')
const load = (file: string) => import(`${folder}/src/kernel/${file}.ts`)
const { hasSecretShape } = (await load('secret-shapes')) as { hasSecretShape: (text: string) => boolean }
type Rules = readonly { readonly keywords: readonly string[] }[]
const { gitleaksRules } = (await load('secrets/gitleaks-rules')) as { gitleaksRules: Rules }
const { ownRules } = (await load('secrets/own-rules')) as { ownRules: Rules }

const BYTES = 1_048_576
const keywords = [...new Set([...ownRules, ...gitleaksRules].flatMap((rule) => rule.keywords))]

/** What each keyword is repeated with: signs of an assignment, verbs, options, addresses, runs of letters. */
const FORMS: readonly ((keyword: string) => string)[] = [
  (keyword) => keyword,
  (keyword) => `${keyword} `,
  (keyword) => `${keyword}=`,
  (keyword) => `${keyword} is `,
  (keyword) => `${keyword} for a `,
  (keyword) => `${keyword} (a`,
  (keyword) => `--${keyword} `,
  (keyword) => `"${keyword}",`,
  (keyword) => `a://b${keyword}:`,
  (keyword) => `${keyword}${'a'.repeat(200)} `,
  () => `${keywords.join(' ')} `,
  () => 'the password is stored ',
  () => 'cGFzc3dvcmQg',
  () => '%70assword ',
]

function cpuMs(unit: string, bytes: number): number {
  const text = unit.repeat(Math.ceil(bytes / unit.length)).slice(0, bytes)
  const before = process.cpuUsage()
  hasSecretShape(text)
  return process.cpuUsage(before).user / 1_000
}

cpuMs('warm ', 1_000)
const every = Number(process.argv[3] ?? 1)
const units = new Set(keywords.flatMap((keyword) => FORMS.map((form) => form(keyword))))
const measured = [...units]
  .filter((_, at) => at % every === 0)
  .map((unit) => ({ unit, quarter: cpuMs(unit, BYTES / 4), whole: cpuMs(unit, BYTES) }))
  .toSorted((a, b) => b.whole - a.whole)
for (const { unit, quarter, whole } of measured.slice(0, 10))
  process.stdout.write(
    `${whole.toFixed(0).padStart(6)} ms  growth ${(whole / quarter).toFixed(1)}  ${JSON.stringify(unit.slice(0, 40))}\n`,
  )
const median = measured[Math.floor(measured.length / 2)]?.whole ?? 0
process.stdout.write(`${measured.length} texts, median ${median.toFixed(0)} ms\n`)
