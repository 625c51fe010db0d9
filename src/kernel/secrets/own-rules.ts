/** The shapes of secrets that Concord knows in addition to those of gitleaks: its own keys, passwords in texts and URLs, connection strings. */
import { namedRules } from './named-rules.ts'
import type { SecretRule } from './secret-rule.ts'

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
  { keywords: ['curl'], shape: /\bcurl\b(?:(?!curl).){0,200}?\s(?:-u|--user)[ =]["']?[^\s:"']{1,100}:([^\s"']{3,})/gi },
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
  ...namedRules,
]
