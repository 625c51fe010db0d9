/** The shapes of secrets that Concord knows in addition to those of gitleaks: its own keys, passwords in texts and URLs, connection strings. */
import { isSecretName } from './secret-name.ts'

/** One shape of a secret. */
export type SecretRule = {
  /** In lower case. A text without one of them cannot match. */
  readonly keywords: readonly string[]
  /** Global. The group `secret`, the first group, or the whole match is the secret. */
  readonly shape: RegExp
  /** For logs and errors, where a false positive does no harm. */
  readonly inLogs?: RegExp
  /** Returns whether a match is a secret. */
  readonly holds?: (match: RegExpExecArray) => boolean
}

/** What stands for a value in a text about it. */
const PLACEHOLDER =
  /^(?:[*x.•]+|\[.*|<.*|\$.*|\{.*|%\w+%|null|none|nil|true|false|undefined|unknown|required|optional|missing|empty|hidden|redacted|string|text|secret|password|token|changeme|your.*|[a-z][a-z0-9+.-]{1,31}:\/\/[\w./:-]*)$/i
const DATE = /^\d{4}-\d\d-\d\d/

/** `name = value` in a text. A value after a colon may be an ordinary word: then only something that is no word counts. */
function isNamedSecret(match: RegExpExecArray): boolean {
  const { name = '', sign = '', secret = '' } = match.groups ?? {}
  const bare = secret.replace(/[.,;:!?)\]}]+$/, '')
  if (!isSecretName(name, /^\d+$/.test(bare))) return false
  if (PLACEHOLDER.test(bare) || bare.length < 3) return false
  const isNumberName = isSecretName(name, true)
  if (/^\d+$/.test(bare)) return isNumberName
  if (bare.length < 4) return false
  if (sign.includes('=')) return true
  if (bare.length < 5 || DATE.test(bare)) return false
  const isNoWord = /\d|[^\p{L}\-./'’:]|\p{Ll}\p{Lu}/u.test(bare) || bare.length >= 20
  // The last word of a line: `password: swordfish`, but not `password: follow the link`.
  const isLast = /^["'`)\]}]*\s{0,9}(?:$|[\r\n])/.test(match.input.slice(match.index + match[0].length + secret.length))
  return isNoWord || (isLast && sign.trim() !== 'is' && isNumberName)
}

export const ownRules: readonly SecretRule[] = [
  // Concord's own keys: the prefix stays, so that a person can see which key it was.
  { keywords: ['ck_'], shape: /\bck_[a-z0-9]{4,16}_([A-Za-z0-9_-]{20,})/g },
  // Passwords in URLs. A port is not a password.
  {
    keywords: ['://'],
    shape: /\b[a-z][a-z0-9+.-]{0,20}:\/\/[^\s:/@"']{0,256}:([^\s@"'/]{1,1024})@/gi,
    inLogs: /\b[a-z][a-z0-9+.-]{0,20}:\/\/[^\s:/@"']{0,256}:([^\s@"']{1,1024})@/gi,
  },
  // "Basic information" is not a credential.
  {
    keywords: ['bearer', 'basic'],
    shape: /\b(?:Bearer|Basic)\s+((?=\S*\d)(?=\S*[A-Za-z])[A-Za-z0-9._~+/=-]{16,})/gi,
    inLogs: /\b(?:Bearer|Basic)\s+([A-Za-z0-9._~+/=-]{8,})/gi,
  },
  {
    keywords: ['authorization'],
    shape:
      /\bauthorization["'`\\]{0,2}\s{0,3}[:=]\s{0,3}["'`\\]{0,2}(?:[A-Za-z-]{2,20}\s)?((?=\S{0,200}\d)[^\s"'`\\]{8,})/gi,
  },
  { keywords: ['curl'], shape: /\bcurl\b.{0,200}?\s(?:-u|--user)[ =]["']?[^\s:"']{1,100}:([^\s"']{3,})/gi },
  // Signed tokens (three base64url parts that start like a JSON header). A header ends where another one begins: a text of
  // nothing but beginnings would otherwise be scanned to its end from each of them (a megabyte took twenty minutes).
  { keywords: ['eyj'], shape: /\beyJ(?:[A-Za-z0-9_]|-(?!eyJ)){5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*/g },
  // Keys of well-known providers.
  {
    keywords: ['sk-', 'sk_', 'rk-', 'rk_', 'pk-', 'pk_'],
    shape: /\b(?:sk|rk)[-_](?:(?:live|test|proj|ant)[-_][A-Za-z0-9_-]{16,}|(?=[A-Za-z]*\d)[A-Za-z0-9]{20,})/g,
    inLogs: /\b(?:sk|pk|rk)[-_](?:live|test|proj|ant)?[-_]?[A-Za-z0-9_-]{16,}/g,
  },
  { keywords: ['ghp_', 'gho_', 'ghu_', 'ghs_', 'ghr_'], shape: /\bgh[pousr]_[A-Za-z0-9]{20,}/g },
  { keywords: ['github_pat_'], shape: /\bgithub_pat_\w{20,}/g },
  { keywords: ['glpat-'], shape: /\bglpat-[\w.-]{16,}/g },
  { keywords: ['xoxa-', 'xoxb-', 'xoxp-', 'xoxr-', 'xoxs-'], shape: /\bxox[abprs]-[A-Za-z0-9-]{10,}/g },
  { keywords: ['akia', 'asia', 'abia', 'acca'], shape: /\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b/g },
  { keywords: ['npm_'], shape: /\bnpm_[A-Za-z0-9]{30,}/g },
  { keywords: ['pypi-'], shape: /\bpypi-[\w-]{32,}/g },
  { keywords: ['aiza'], shape: /\bAIza[\w-]{30,}/g },
  { keywords: ['sg.'], shape: /\bSG\.[\w-]{16,}\.[\w-]{16,}/g },
  { keywords: ['atatt3'], shape: /\bATATT3[\w=-]{20,}/g },
  { keywords: ['sgp_'], shape: /\bsgp_[0-9a-f_]{40,}/gi },
  { keywords: ['pat'], shape: /\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}\b/g },
  { keywords: [':aa'], shape: /\b\d{8,10}:AA[\w-]{32,}/g },
  // Addresses that are secrets themselves: anyone who knows them may post.
  { keywords: ['hooks.slack.com'], shape: /hooks\.slack\.com\/(?:services|workflows|triggers)\/[\w+/-]{16,}/gi },
  { keywords: ['/api/webhooks/'], shape: /\b(?:discord|discordapp)\.com\/api\/webhooks\/\d{5,}\/[\w-]{16,}/gi },
  { keywords: ['webhook.office.com'], shape: /webhook\.office\.com\/webhookb2\/[\w@/-]{36,}/gi },
  // Connection strings and signed addresses of Azure and AWS.
  {
    keywords: ['accountkey', 'sharedaccesskey', 'sharedaccesssignature'],
    shape: /\b(?:AccountKey|SharedAccessKey|SharedAccessSignature)\s*=\s*([\w+/=%&.-]{16,})/gi,
  },
  {
    keywords: ['sig=', 'signature='],
    shape: /[?&](?:sig|signature|x-amz-signature|x-goog-signature)=([\w%+/=-]{20,})/gi,
  },
  // Private keys, also truncated ones. A new beginning ends the previous one.
  {
    keywords: ['private key'],
    shape:
      /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[^-]*(?:-(?!----(?:BEGIN|END) )[^-]*)*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?/g,
  },
  {
    keywords: [
      'passw',
      'passphrase',
      'passcode',
      'pwd',
      'kennwort',
      'secret',
      'token',
      'key',
      'credential',
      'cvv',
      'cvc',
      'authorization',
      'phrase',
      'connection',
    ],
    shape:
      /(?<![\w.-])(?<name>[\w.-]{2,64}(?: [\w.-]{2,32}){0,2})["'`\\]{0,2}(?<sign>\s{0,3}(?:=>|:=|[=:])\s{0,3}|\sis\s)["'`\\]{0,2}(?=(?<secret>[^\s"'`,;&<>\\]{3,256}))/g,
    holds: isNamedSecret,
  },
]
