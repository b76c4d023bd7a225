"""The furniture of the pages in every language they speak: one row for each word, English first.

What the pages say about operators stays English. The furniture around it stands there in English too, each piece with
its key, and a script puts the reader's language in its place.
"""

from __future__ import annotations

from html import escape
from typing import Final

LANGUAGES: Final = {"en": "English", "zh-Hans": "简体中文", "zh-Hant": "繁體中文", "ja": "日本語"}

WORDS: Final[dict[str, tuple[str, str, str, str]]] = {
    # ---- around every page
    "skip": ("Skip to the content", "跳到正文", "跳至內文", "本文へ移動"),
    "pages": ("Pages", "页面", "頁面", "ページ"),
    "operators": ("Operators", "算子", "運算子", "演算子"),
    "functions": ("Functions", "函数", "函式", "関数"),
    "guides": ("Guides", "指南", "指南", "ガイド"),
    "compare": ("Compare", "比较", "比較", "比較"),
    "search": ("Search", "搜索", "搜尋", "検索"),
    "results": ("Results of the search", "搜索结果", "搜尋結果", "検索結果"),
    "no results": ("Nothing was found", "没有找到结果", "找不到結果", "見つかりませんでした"),
    "language": ("Language", "语言", "語言", "言語"),
    "theme": ("Light or dark", "浅色或深色", "淺色或深色", "明るさ"),
    "auto": ("System colours", "跟随系统配色", "依系統配色", "システムの配色"),
    "light": ("Light", "浅色", "淺色", "ライト"),
    "dark": ("Dark", "深色", "深色", "ダーク"),
    "on this page": ("On this page", "本页内容", "本頁內容", "このページの内容"),
    # ---- an operator and its versions
    "domain": ("Domain", "域", "網域", "ドメイン"),
    "since version": ("Since version", "起始版本", "起始版本", "導入バージョン"),
    "opsets": ("Opsets", "opset 范围", "opset 範圍", "opset の範囲"),
    "formula": ("Formula", "公式", "公式", "数式"),
    "call": ("Call", "调用", "呼叫", "呼び出し"),
    "inputs": ("Inputs", "输入", "輸入", "入力"),
    "outputs": ("Outputs", "输出", "輸出", "出力"),
    "attributes": ("Attributes", "属性", "屬性", "属性"),
    "type constraints": ("Type constraints", "类型约束", "型別約束", "型制約"),
    "allowed types": ("Allowed types", "允许的类型", "允許的型別", "許される型"),
    "optional": ("optional", "可选", "選用", "省略可"),
    "default": ("default", "默认", "預設", "既定値"),
    "accepted": ("accepted", "可接受", "可接受", "受け付ける値"),
    "edges": ("At the edges", "边界情况", "邊界情況", "境界での動作"),
    "examples": ("Examples", "示例", "範例", "例"),
    "shapes": ("What it does to a shape", "对形状的作用", "對形狀的作用", "形状への作用"),
    "previous": ("Differences with previous version", "与前一版本的差异", "與前一版本的差異", "前のバージョンとの差異"),
    "history": ("Version history", "版本历史", "版本歷史", "バージョン履歴"),
    "version": ("Version", "版本", "版本", "バージョン"),
    "versions": ("Versions", "版本", "版本", "バージョン"),
    "changes": ("Changes", "变更", "變更", "変更点"),
    "first version": ("the first version", "首个版本", "首個版本", "最初のバージョン"),
    "current": ("this page", "本页", "本頁", "このページ"),
    "other dialect": ("In the other standard", "在另一标准中", "在另一標準中", "もう一方の標準では"),
    "no counterpart": (
        "The other standard has no such operator.",
        "另一标准没有这个算子。",
        "另一標準沒有這個運算子。",
        "もう一方の標準にこの演算子はありません。",
    ),
    "runtimes": ("Which runtimes run it", "各运行时的支持情况", "各執行環境的支援情況", "ランタイムの対応状況"),
    "runtime": ("Runtime", "运行时", "執行環境", "ランタイム"),
    "runs": ("Runs", "可运行", "可執行", "動く"),
    "wrong": ("Wrong result", "结果错误", "結果錯誤", "結果が誤り"),
    "refused": ("Refused", "被拒绝", "被拒絕", "拒否される"),
    "known faults": ("Known faults", "已知问题", "已知問題", "既知の不具合"),
    "array functions": ("As array functions", "作为数组函数", "作為陣列函式", "配列の関数として"),
    "newest dtypes": ("Types of the newest", "最新版本的类型", "最新版本的型別", "最新バージョンの型"),
    "operator": ("Operator", "算子", "運算子", "演算子"),
    "does": ("What it does", "作用", "作用", "働き"),
    # ---- a comparison
    "old": ("Old version", "旧版本", "舊版本", "旧バージョン"),
    "new": ("New version", "新版本", "新版本", "新バージョン"),
    "show": ("Show the differences", "显示差异", "顯示差異", "差異を表示"),
    "two versions": (
        "Choose two different versions.",
        "请选择两个不同的版本。",
        "請選擇兩個不同的版本。",
        "異なる二つのバージョンを選んでください。",
    ),
    "all pairs": (
        "All versions of one operator", "同一算子的所有版本", "同一運算子的所有版本", "同じ演算子の全バージョン",
    ),
    "breaking": ("breaking", "不兼容", "不相容", "互換性なし"),
    "not breaking": ("not breaking", "兼容", "相容", "互換性あり"),
    "no differences": ("no differences", "没有差异", "沒有差異", "差異なし"),
    "breaking reasons": ("Breaking reasons", "不兼容的原因", "不相容的原因", "互換性がない理由"),
    "documentation": ("Documentation", "文档", "文件", "文書"),
    "behaviour": ("Behaviour", "行为", "行為", "動作"),
    "migration": ("Migration", "迁移", "遷移", "移行"),
    "about": ("About", "关于", "關於", "項目"),
    "outcome": ("Outcome", "结果", "結果", "結果"),
    "reverse": ("The other way round", "反向比较", "反向比較", "逆方向の比較"),
    # ---- functions and guides
    "arguments": ("Arguments", "参数", "參數", "引数"),
    "returns": ("Returns", "返回", "傳回", "戻り値"),
    "see also": ("See also", "另请参阅", "另請參閱", "関連項目"),
    "start": ("Getting started", "入门", "入門", "はじめに"),
    "reductions": ("Reductions", "归约", "歸約", "縮約"),
    "scans": ("Scans", "扫描", "掃描", "走査"),
    "more": ("Operators, models, states", "算子、模型与状态", "運算子、模型與狀態", "演算子・モデル・状態"),
    "errors": ("Errors", "错误", "錯誤", "エラー"),
}  # fmt: skip


def said(key: str) -> str:
    """A word of the furniture, ready for another language."""
    return f'<span data-word="{escape(key)}">{escape(WORDS[key][0])}</span>'


def dictionary(language: str) -> dict[str, str]:
    """All words in one language."""
    place = list(LANGUAGES).index(language)
    return {key: words[place] for key, words in WORDS.items()}
